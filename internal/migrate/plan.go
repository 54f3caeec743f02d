package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/plan"
)

// planRole implements [source.Context.Plan]. It plans a Job of the same gang.
func (m Migrator) planRole(from source.Workload) source.Plan {
	meta := metav1.ObjectMeta{
		Name: from.Gang, Namespace: m.namespaceOrDefault(from.Namespace),
		Labels: map[string]string{gang.LabelFramework: from.Framework}, Annotations: maps.Clone(from.Annotations),
	}
	if len(from.Pods) > 1 {
		sizes := make([]string, 0, len(from.Pods))
		for _, role := range slices.Sorted(maps.Keys(from.Pods)) {
			sizes = append(sizes, fmt.Sprintf("%s=%d", role, from.Pods[role]))
		}
		meta.Name += "-" + from.Role
		meta.Labels[gang.LabelRole] = from.Role
		metav1.SetMetaDataAnnotation(&meta, gang.AnnotationRoles, strings.Join(sizes, ","))
	}
	pods := from.Pods[from.Role]
	w := gang.Workload{Job: &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		Parallelism: ptr.To(pods), Completions: ptr.To(pods), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		Template: from.Template,
	}}}
	return m.planWorkload(w)
}

// planWorkload implements [source.Context.PlanWorkload] with the injector of the framework. It does not
// modify the workload.
func (m Migrator) planWorkload(w gang.Workload) source.Plan {
	registry, framework := injectors.Builtin(), w.Meta().Labels[gang.LabelFramework]
	i := slices.IndexFunc(registry, func(inj injectors.Injector) bool { return inj.Framework().Name == framework })
	if i < 0 {
		return source.Plan{}
	}
	g, _, errs := gang.Parse(m.inNamespace(w), registry.Frameworks(), m.Config)
	if len(errs) > 0 {
		return source.Plan{} // the webhook rejects the gang, and the report contains its errors
	}
	var out source.Plan
	for _, c := range g.Containers {
		out.TrainingContainers = append(out.TrainingContainers, c.Name)
	}
	for _, e := range registry[i].Plan(g).Env {
		if e.Policy == plan.Required {
			out.RequiredVars = append(out.RequiredVars, e.EnvVar)
		}
	}
	return out
}
