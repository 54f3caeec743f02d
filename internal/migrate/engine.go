package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/vet"
	"rollcall.training/plan"
)

// inject implements [source.Context.Inject] with the engine of the webhook. It does not modify the workload.
func (m Migrator) inject(w gang.Workload) source.Injection {
	draft := m.inNamespace(w)
	registry := injectors.Builtin()
	parsed, _, errs := gang.Parse(draft, registry.Frameworks(), m.Config)
	if len(errs) > 0 {
		return source.Injection{} // the webhook rejects the gang, and the report contains its errors
	}
	out := source.Injection{Settings: map[string]string{}, Conflicts: map[string]bool{}}
	for _, c := range parsed.Containers {
		out.TrainingContainers = append(out.TrainingContainers, c.Name)
	}
	result, _ := m.newEngine().Inject(draft) // the denials are read below
	g := result.Gang
	if g.Framework.Name == "" {
		return out // the workload opts out
	}
	if g.Port != parsed.Port {
		out.Settings[gang.AnnotationPort] = strconv.Itoa(int(g.Port))
	}
	if g.Processes != parsed.Processes {
		out.Settings[gang.AnnotationNprocPerNode] = g.Processes.String()
	}
	for _, inj := range registry {
		if inj.Framework().Name != g.Framework.Name {
			continue
		}
		for _, e := range inj.Plan(g).Env {
			if e.Policy == plan.Required {
				out.RequiredVars = append(out.RequiredVars, e.EnvVar)
			}
		}
	}
	for _, denial := range result.Denials {
		out.Conflicts[findEnvVar(w, denial.Field)] = true
	}
	for _, warning := range result.Warnings {
		out.Conflicts[findEnvVar(w, warning.Path)] = true // a value that is not known at admission
	}
	return out
}

// findEnvVar returns the container and the name of the variable at a path, or "".
func findEnvVar(w gang.Workload, path string) string {
	steps := fieldpath.Split(path)
	if len(steps) < 7 || steps[5] != "env" { // as in spec.template.spec.containers[0].env[0].value
		return ""
	}
	spec := w.Template().Spec
	containers := map[string][]corev1.Container{"containers": spec.Containers, "initContainers": spec.InitContainers}
	list := containers[steps[3]]
	at, _ := strconv.Atoi(steps[4])
	index, _ := strconv.Atoi(steps[6])
	if at >= len(list) || index >= len(list[at].Env) {
		return "" // a variable that the engine adds
	}
	return list[at].Name + "/" + list[at].Env[index].Name
}

// blockingWarnings are the warnings of vet with which a gang starts and does not train: the ranks do not
// find each other, or train separately.
var blockingWarnings = []vet.Code{
	vet.CodeHardcodedRank, vet.CodeLoopbackRendezvous, vet.CodeSSHPortMismatch, vet.CodeLauncherFlagConflict,
	vet.CodeUnresolvableRendezvous, vet.CodeWorkerWithoutSSHD, vet.CodeWrongTrainingContainer,
}

// addFindings runs the checks of rollcall vet on the output, and adds what prevents a migrated gang from
// training to its report.
func (m *migration) addFindings() {
	found := vet.Run(m.result.Documents, nil, vet.Options{Engine: m.newEngine(), Namespace: m.Namespace})
	for _, f := range found.Findings {
		if f.Severity != vet.Error && !slices.Contains(blockingWarnings, f.Code) {
			continue
		}
		i := slices.IndexFunc(m.result.Reports, func(r Report) bool {
			return r.Source == f.Source && r.Document == f.Document && !r.Failed() && slices.ContainsFunc(r.Outputs,
				func(output string) bool { return isOutput(output, f.Object) })
		})
		if i >= 0 {
			m.result.Reports[i].Findings = append(m.result.Reports[i].Findings, f)
		}
	}
}

// isOutput reports whether the name of an output, such as job.batch/train, is that of a finding's
// object, such as job/train.
func isOutput(output, object string) bool {
	kind, name, _ := strings.Cut(output, "/")
	kind, _, _ = strings.Cut(kind, ".")
	return kind+"/"+name == object
}

// outputNames maps each object of the output to a description of its source.
type outputNames map[string]string

// objectIdentity identifies an object in a cluster. Objects without a namespace are assumed to be applied to the same
// namespace.
func objectIdentity(o manifest.Object) string {
	return strings.Join([]string{o.APIGroup(), o.Kind, o.Namespace, o.Name}, "/")
}

// addPassthrough adds the objects that pass through.
func (n outputNames) addPassthrough(docs []*manifest.Document) {
	for _, d := range docs {
		for _, o := range d.Objects() {
			if !isMigratable(o) && o.Name != "" {
				n[objectIdentity(o)] = d.String()
			}
		}
	}
}

// claimNames adds the workloads of a job. If another object has the same name, the job is not
// migrated, because the second object would overwrite the first one in the cluster.
func (n outputNames) claimNames(docs []*manifest.Document, report Report) ([]*manifest.Document, Report) {
	var claimed []string
	for _, d := range docs {
		for _, o := range d.Objects() {
			id := objectIdentity(o)
			if other, taken := n[id]; taken {
				report.Errors = append(report.Errors, fmt.Sprintf(
					"the name of %s %s exists already: %s; rename one of the two", o.Kind, o.Name, other))
			}
			claimed = append(claimed, id)
		}
	}
	if report.Failed() {
		report.Outputs = nil
		return nil, report
	}
	for _, id := range claimed {
		n[id] = fmt.Sprintf("%s of %s, document %d", report.Object, report.Source, report.Document)
	}
	return docs, report
}

// pruneEmptyFields returns the object without the empty fields that Go types always encode. It
// removes only fields for which empty and absent have the same meaning. An empty emptyDir, for
// example, is not such a field.
func pruneEmptyFields(obj runtime.Object) (*unstructured.Unstructured, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	walkTree("", tree, func(_ string, value any) bool {
		fields, _ := value.(map[string]any)
		maps.DeleteFunc(fields, func(key string, value any) bool {
			empty, isObject := value.(map[string]any)
			return isObject && len(empty) == 0 && slices.Contains(alwaysEncoded, key)
		})
		return true
	})
	return &unstructured.Unstructured{Object: tree}, nil
}

// alwaysEncoded are fields of workloads that Go types encode even if they are empty.
var alwaysEncoded = []string{"metadata", "resources", "updateStrategy"}
