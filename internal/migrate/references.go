package migrate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/kubeflow"
	"rollcall.training/internal/migrate/source"
)

// migratedGang is a gang with the labels that its pods had and have.
type migratedGang struct {
	ir.LabelMapping
	// workloads are the names of its Jobs and StatefulSets as kubectl prints them.
	workloads string
}

func newMigratedGang(mapping ir.LabelMapping, outputs []string) migratedGang {
	workloads := slices.DeleteFunc(slices.Clone(outputs), func(name string) bool {
		return !strings.HasPrefix(name, "job.") && !strings.HasPrefix(name, "statefulset.")
	})
	return migratedGang{mapping, strings.Join(workloads, ", ")}
}

// objectScan scans an object that passes through for references to migrated jobs. It embeds the
// report of the object.
type objectScan struct {
	Report
	// gangs are those whose pods the object can select.
	gangs []migratedGang
}

// checkReferences reports the fields of an object that the migration of the gangs breaks. It
// returns false if there are none.
func (m Migrator) checkReferences(gangs []migratedGang, o manifest.Object) (Report, bool) {
	scan := objectScan{gangs: m.selectableGangs(gangs, o), Report: Report{
		Source: o.Document.Source, Document: o.Document.Number, Passthrough: true,
		Object: DescribeObject(o),
	}}
	var tree map[string]any
	if o.Decode(&tree) != nil {
		return scan.Report, false // the API server rejects the object
	}
	if reason := explainUnsupportedJob(o); reason != "" {
		scan.Errors = append(scan.Errors, reason)
	}
	walkTree("", tree, scan.checkValue)
	return scan.Report, len(scan.Entries)+len(scan.Errors) > 0
}

// DescribeObject returns kind, namespace and name of an object.
func DescribeObject(o manifest.Object) string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return strings.TrimSpace(o.Kind + " " + o.Name)
}

// selectableGangs returns the gangs whose pods an object can select: those of its namespace, and all
// if the object selects namespaces.
func (m Migrator) selectableGangs(gangs []migratedGang, o manifest.Object) []migratedGang {
	if strings.Contains(string(o.JSON), `"namespaceSelector"`) {
		return gangs
	}
	return slices.DeleteFunc(slices.Clone(gangs), func(g migratedGang) bool {
		return m.namespaceOrDefault(g.Namespace) != m.namespaceOrDefault(o.Namespace)
	})
}

// walkTree visits the values of a tree in the order of their names, parents first. It skips the
// children of a value if visit returns false.
func walkTree(path string, value any, visit func(path string, value any) bool) {
	if !visit(path, value) {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			walkTree(fieldpath.Child(path, key), v[key], visit)
		}
	case []any:
		for i, item := range v {
			walkTree(fieldpath.Item(path, i), item, visit)
		}
	}
}

func (s *objectScan) checkValue(path string, value any) bool {
	switch v := value.(type) {
	case map[string]any:
		last := path[strings.LastIndexByte(path, '.')+1:]
		if last == "labels" || path == "metadata.annotations" || last == "managedFields" {
			return false // not selectors
		}
		return !reportNestedObject(&s.Report, path, v) && !s.checkSelector(path, v)
	case string:
		reportEmbeddedManifests(&s.Report, path, v)
		s.checkText(path, v)
	}
	return true
}

// checkOwnSelectors reports the labels in affinity and topology spread of a job that its new pods do not have. The tree
// is the job, or the runtime of a TrainJob.
func (s *objectScan) checkOwnSelectors(path string, tree map[string]any) {
	walkTree(path, tree, func(path string, value any) bool {
		selector, ok := value.(map[string]any)
		return !ok || !strings.HasSuffix(path, ".labelSelector") || !s.checkSelector(path, selector)
	})
}

// selectorTerm is a label that a selector requires. The value is empty if only the key matters.
type selectorTerm struct{ path, key, value string }

// parseSelector returns the terms of a value that may be a label selector or a map of labels.
func parseSelector(path string, tree map[string]any) []selectorTerm {
	var out []selectorTerm
	labels, labelsPath := tree, path
	if matchLabels, ok := tree["matchLabels"].(map[string]any); ok {
		labels, labelsPath = matchLabels, path+".matchLabels"
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if value, ok := labels[key].(string); ok {
			out = append(out, selectorTerm{labelsPath, key, value})
		}
	}
	var selector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &selector) != nil {
		return out // a map of labels
	}
	for i, e := range selector.MatchExpressions {
		if len(e.Values) == 0 {
			e.Values = []string{""} // any value
		}
		for _, value := range e.Values {
			out = append(out, selectorTerm{fmt.Sprintf("%s.matchExpressions[%d]", path, i), e.Key, value})
		}
	}
	return out
}

// checkSelector reports the labels of a selector that the new pods do not have. It returns false if
// the value does not select pods of any gang. Of several gangs, it prefers one whose labels replace
// all terms.
func (s *objectScan) checkSelector(path string, tree map[string]any) bool {
	terms := parseSelector(path, tree)
	i := slices.IndexFunc(s.gangs, func(g migratedGang) bool { return g.isSelectedBy(terms) && g.translatesAll(terms) })
	if i < 0 {
		i = slices.IndexFunc(s.gangs, func(g migratedGang) bool { return g.isSelectedBy(terms) })
	}
	if i < 0 {
		return false
	}
	for _, term := range terms {
		s.reportTerm(s.gangs[i], term)
	}
	return true
}

// translatesAll reports whether labels of the new pods can replace all terms.
func (g migratedGang) translatesAll(terms []selectorTerm) bool {
	return !slices.ContainsFunc(terms, func(term selectorTerm) bool {
		_, _, ok := g.Translate(term.key, term.value)
		return !ok
	})
}

// isSelectedBy reports whether the terms contain labels of the gang's former system and none of
// another job.
func (g migratedGang) isSelectedBy(terms []selectorTerm) bool {
	selected, others := false, false
	for _, term := range terms {
		label, known := g.FindSourceLabel(term.key, term.value)
		switch {
		case !known:
		case term.value != "" && label.Meaning == ir.MeaningGang:
			if term.value == g.Gang {
				return true
			}
			others = true
		case term.value == "" && label.Preserved: // the name of any Job
		default:
			selected = true
		}
	}
	return selected && !others
}

// reportTerm reports a label that the new pods do not have.
func (s *objectScan) reportTerm(g migratedGang, term selectorTerm) {
	key, value, ok := g.Translate(term.key, term.value)
	if ok && key == term.key && value == term.value {
		return
	}
	action := g.SelectorHint()
	if ok && value != "" {
		action = fmt.Sprintf("replace it by %s: %s", key, value)
	}
	s.Entries = append(s.Entries, source.Entry{
		Path: term.path, Outcome: source.Dropped, Action: action,
		Reason: fmt.Sprintf("selects pods by %s, which does not select the pods of %s",
			strings.TrimSuffix(term.key+": "+term.value, ": "), g.workloads),
	})
}

// checkText reports labels in a text, such as a kubectl command or a query, that no new pod has.
func (s *objectScan) checkText(path, text string) {
	seen := map[string]bool{}
	for _, g := range s.gangs {
		for _, key := range g.RemovedLabels() {
			if seen[key] || !mentionsLabel(text, key) {
				continue
			}
			seen[key] = true
			s.Entries = append(s.Entries, source.Entry{
				Path: path, Outcome: source.Dropped, Action: g.SelectorHint(),
				Reason: fmt.Sprintf("contains the label %s, which the pods of %s do not have", key, g.workloads),
			})
		}
	}
}

// mentionsLabel reports whether a text contains a label, and not a longer one. A key without a
// domain can be any word, so it counts only if it is compared with a value.
func mentionsLabel(text, key string) bool {
	if !strings.Contains(text, key) {
		return false
	}
	const boundary = `[^-_./A-Za-z0-9]`
	next := `($|` + boundary + `)`
	if !strings.Contains(key, "/") {
		next = `( *=| *!=| +in \()`
	}
	return regexp.MustCompile(`(^|` + boundary + `)` + regexp.QuoteMeta(key) + next).MatchString(text)
}

// extractionAdvice is the action for a job within another object. Migrate does not convert it, because the outer object
// may depend on the kind of the inner one, for example on its status.
const extractionAdvice = "write it to its own file, " +
	"run rollcall migrate -f on the file, and insert the result; if the outer object waits for the job, let it use the " +
	"conditions of the Job"

// reportNestedObject reports an object of another system within an object that passes through. An
// object with a spec is a job. An object without a spec is a reference to a job. It returns false
// for all other values.
func reportNestedObject(r *Report, path string, tree map[string]any) bool {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	if path == "" || !isMigratable(manifest.Object{APIVersion: apiVersion, Kind: kind}) {
		return false
	}
	if _, isJob := tree["spec"]; isJob {
		r.Errors = append(r.Errors, fmt.Sprintf("%s holds a %s, %s; migrate does not convert a job within another object; %s",
			path, kind, apiVersion, extractionAdvice))
		return true
	}
	name, _ := tree["name"].(string)
	r.Entries = append(r.Entries, source.Entry{
		Path: path, Outcome: source.Dropped,
		Reason: strings.TrimSpace(fmt.Sprintf("refers to the %s %s", kind, name)) + ", " + apiVersion +
			", which has another kind now",
		Action: "refer to the new Job or StatefulSet",
	})
	return true
}

// Patterns of manifests, in YAML or JSON, within a text.
var (
	apiVersionPattern = regexp.MustCompile(`\bapiVersion["']?\s*:\s*["']?([a-z0-9.-]+/[a-z0-9]+)`)
	kindPattern       = regexp.MustCompile(`\bkind["']?\s*:\s*["']?([A-Za-z]+)`)
)

// reportEmbeddedManifests reports the manifests of jobs in a text.
func reportEmbeddedManifests(r *Report, path, text string) {
	if !strings.Contains(text, "apiVersion") {
		return
	}
	var seen []string
	for _, version := range apiVersionPattern.FindAllStringSubmatch(text, -1) {
		for _, kind := range kindPattern.FindAllStringSubmatch(text, -1) {
			name := kind[1] + ", " + version[1]
			if !slices.Contains(seen, name) && isMigratable(manifest.Object{APIVersion: version[1], Kind: kind[1]}) {
				seen = append(seen, name)
				r.Errors = append(r.Errors, fmt.Sprintf(
					"%s holds the manifest of a %s; migrate does not convert a text within another object; %s",
					path, name, extractionAdvice))
			}
		}
	}
}

// gangService is the headless Service that Rollcall creates for a gang.
type gangService struct {
	name string
	// workload is an injected workload of the gang, with its namespace.
	workload gang.Workload
}

// removeServices removes the headless Services of the input that Rollcall creates itself. A Service
// with another selector would prevent the gang from starting.
func (m *migration) removeServices() {
	m.result.Documents = slices.DeleteFunc(m.result.Documents, func(d *manifest.Document) bool {
		objects := d.Objects()
		if len(objects) != 1 || !m.replacesService(objects[0]) {
			return false
		}
		m.passedThrough = slices.DeleteFunc(m.passedThrough, func(o manifest.Object) bool { return o.Document == d })
		m.result.Reports = append(m.result.Reports, Report{
			Source: d.Source, Document: d.Number, Object: DescribeObject(objects[0]),
			Note: "left out, because Rollcall creates the headless Service of the gang",
		})
		return true
	})
}

// replacesService reports whether Rollcall creates a Service with the same name for the same pods.
func (m *migration) replacesService(o manifest.Object) bool {
	var service corev1.Service
	if o.Kind != "Service" || o.APIVersion != "v1" || o.Labels[gang.LabelGang] != "" || o.Decode(&service) != nil ||
		service.Spec.ClusterIP != corev1.ClusterIPNone {
		return false
	}
	namespace := m.namespaceOrDefault(o.Namespace)
	return slices.ContainsFunc(m.services, func(s gangService) bool {
		if s.name != o.Name || s.workload.Meta().Namespace != namespace {
			return false
		}
		return gang.ServiceMismatch(&service, withServerLabels(s.workload), gang.PublishAll) == "" ||
			m.selectsFormerPods(&service, namespace)
	})
}

// withServerLabels returns a workload with the labels that the API server adds to the pod template of
// a Job (kubernetes pkg/registry/batch/job/strategy.go).
func withServerLabels(w gang.Workload) gang.Workload {
	if w.Job == nil {
		return w
	}
	w = w.DeepCopy()
	for _, key := range []string{batchv1.JobNameLabel, "job-name"} {
		if _, ok := w.Job.Spec.Template.Labels[key]; !ok {
			metav1.SetMetaDataLabel(&w.Job.Spec.Template.ObjectMeta, key, w.Job.Name)
		}
	}
	return w
}

// selectsFormerPods reports whether a Service selects all pods of a gang by labels of its former
// system.
func (m *migration) selectsFormerPods(s *corev1.Service, namespace string) bool {
	var terms []selectorTerm
	for key, value := range s.Spec.Selector {
		terms = append(terms, selectorTerm{"", key, value})
	}
	return slices.ContainsFunc(m.gangs, func(g migratedGang) bool {
		return m.namespaceOrDefault(g.Namespace) == namespace && g.isSelectedBy(terms) && g.translatesAll(terms)
	})
}

// otherJobKinds are kinds of training jobs that no supported API group has.
var otherJobKinds = []string{"MXJob", "ElasticJob", "ElasticDLJob", "HyperPodPyTorchJob", "RayJob", "TrainingJob"}

// explainUnsupportedJob returns why a training job passes through, for example one of an API group that the
// operator used earlier. It returns an empty string for all other objects.
func explainUnsupportedJob(o manifest.Object) string {
	group, fix := o.APIGroup(), ""
	isJob := slices.Contains(otherJobKinds, o.Kind) || group == kubeflow.Group && strings.HasSuffix(o.Kind, "Job")
	for supported := range readersByGroup() {
		if o.Kind != "Job" && source.IsJobKind(supported, o.Kind) {
			isJob, fix = true, fmt.Sprintf("; convert the manifest to %s of %s first", o.Kind, supported)
		}
	}
	if !isJob {
		return ""
	}
	return fmt.Sprintf("migrate does not support the kind %s of apiVersion %q%s", o.Kind, o.APIVersion, fix)
}
