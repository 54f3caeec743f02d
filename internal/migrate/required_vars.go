package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/plan"
)

// requiredVars implements [source.Context.RequiredVars]. It plans a Job of the same gang with the
// injector of the framework.
func (m Migrator) requiredVars(from source.Workload) []corev1.EnvVar {
	registry := injectors.Builtin()
	i := slices.IndexFunc(registry, func(inj injectors.Injector) bool { return inj.Framework().Name == from.Framework })
	if i < 0 {
		return nil
	}
	meta := metav1.ObjectMeta{
		Name: from.Gang, Namespace: cmp.Or(from.Namespace, m.Namespace, "default"),
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
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Subdomain: from.Subdomain, Containers: []corev1.Container{{Name: "main"}},
		}},
	}}}
	g, _, errs := gang.Parse(w, registry.Frameworks(), m.Config)
	if len(errs) > 0 {
		return nil // the webhook rejects the gang, and the report contains its errors
	}
	var out []corev1.EnvVar
	for _, e := range registry[i].Plan(g).Env {
		if e.Policy == plan.Required {
			out = append(out, e.EnvVar)
		}
	}
	return out
}
