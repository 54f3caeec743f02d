package migrate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/detection"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// isWorkload reports whether the object is a Job or a StatefulSet.
func isWorkload(o manifest.Object) bool {
	w, ok := gang.NewWorkload(gang.Kind(o.Kind))
	return ok && o.APIVersion == w.GroupKind().Group+"/v1"
}

// migrateWorkload makes a gang of a Job or a StatefulSet that a user wrote. A workload that is not a
// gang, or that needs no change, passes through.
func (m *migration) migrateWorkload(o manifest.Object, line func(path string) int) {
	var tree map[string]any
	renamed, err := m.decode(o, &tree)
	if err != nil {
		m.passThrough(o.Document) // the API server rejects it
		return
	}
	var recorder source.Recorder
	from := source.Object{Kind: o.Kind, Root: recorder.Root(tree), Context: m.newContext(o)}
	report := Report{
		Source: o.Document.Source, Document: o.Document.Number, Object: DescribeObject(o), Warnings: renamed,
	}
	w, _ := gang.NewWorkload(gang.Kind(o.Kind))
	if !from.Root.Decode(w.Object()) && !o.HasFrameworkLabel() {
		m.passThrough(o.Document)
		return
	}
	before := w.DeepCopy()
	err = convertWorkload(from, w)
	report.addErrors(recorder.Errors(), line)
	switch {
	case report.Failed():
	case errors.Is(err, source.ErrNoGang):
		report.Passthrough, report.Note = true, err.Error()
		m.passThrough(o.Document)
	case equality.Semantic.DeepEqual(before.Object(), w.Object()):
		m.checkAdmission(m.newEngine(), w, &Report{}) // its Service can be in the input
		m.passThrough(o.Document)
		return
	default:
		report.Entries = recorder.Entries()
		var docs []*manifest.Document
		docs, report = m.buildDocuments(o.Document, []runtime.Object{w.Object()}, report)
		m.result.Documents = append(m.result.Documents, docs...)
		m.passedThrough = append(m.passedThrough, o)
		if name := before.Template().Spec.Subdomain; name != "" && w.Template().Spec.Subdomain == "" {
			m.services = append(m.services, gangService{name: name, workload: m.inNamespace(w)})
		}
	}
	m.result.Reports = append(m.result.Reports, report)
}

// convertWorkload makes a gang of a Job or a StatefulSet: it sets the framework label, and removes the variables
// and the subdomain that Rollcall sets. It modifies the workload, which is the decoded manifest. A workload
// with the label can be a gang already, and then nothing is recorded.
//
// The error wraps [source.ErrNoGang] if the workload is not a gang, and states why.
func convertWorkload(o source.Object, w gang.Workload) error {
	o.Root.MarkHandled() // all other fields stay
	c := workloadConverter{Object: o, w: w, template: o.Root.At("spec", "template")}
	isLabeled := w.HasFrameworkLabel()
	switch {
	case isLabeled && w.OptedOut():
		return nil // Rollcall would not set what this function removes
	case !isLabeled:
		framework, reason := c.chooseFramework()
		if reason != "" {
			return fmt.Errorf("%w: %s", source.ErrNoGang, reason)
		}
		metav1.SetMetaDataLabel(w.Meta(), gang.LabelFramework, framework)
	}
	framework, ok := o.Context.Frameworks.Find(w.Meta().Labels[gang.LabelFramework])
	if !ok {
		return nil // the webhook rejects it
	}
	c.setCompletions()
	if !isLabeled {
		ir.ReportJoinedPods(framework, &w.Template().Spec, c.template, w.Ranks())
	}
	if !w.HasRoles() || !framework.HasLauncher { // a launcher passes its variables to the other ranks
		c.removeInjectedVars()
	}
	if !isLabeled {
		c.removeSubdomain()
	}
	return nil
}

// workloadConverter converts one workload.
type workloadConverter struct {
	source.Object
	w gang.Workload
	// template is the place of the pod template.
	template source.Field
}

// chooseFramework returns the framework of a workload without the label, or why the workload is not a gang.
func (c workloadConverter) chooseFramework() (framework, reason string) {
	w, pod, chosen := c.w, &c.w.Template().Spec, c.Context.Framework
	detected, evidence := detection.FindFramework(c.Context.Frameworks, pod)
	hasHostnames := w.StatefulSet != nil || pod.Subdomain != "" ||
		w.Job != nil && ptr.Deref(w.Job.Spec.CompletionMode, "") == batchv1.IndexedCompletion
	switch {
	case w.OptedOut():
		return "", "it has the label " + gang.LabelInject + ": false"
	case len(w.Meta().OwnerReferences) > 0:
		return "", "another object creates it"
	case w.Ranks() < 2:
		return "", "it has only one pod"
	case w.Job != nil && ptr.Deref(w.Job.Spec.Completions, w.Ranks()) != w.Ranks():
		return "", "completions differs from parallelism, so its pods do not run together"
	case chosen != "" && (hasHostnames || evidence != ""):
		c.template.AddNote("label "+gang.LabelFramework+": "+chosen+", as --framework requests", "")
		return chosen, ""
	case chosen != "":
		return "", "its pods have neither an index nor hostnames, and no variable or command implies a framework; " +
			"if they train together, set the label " + gang.LabelFramework
	case evidence == "":
		return "", "no variable or command implies a framework; if its pods train together, set the label " +
			gang.LabelFramework
	}
	ir.ReportDetection(c.template, detected.Name, evidence)
	return detected.Name, ""
}

// setCompletions sets the number of completions of a Job without one, which would be a work queue.
func (c workloadConverter) setCompletions() {
	w := c.w
	if w.Job == nil || w.Job.Spec.Completions != nil || w.Ranks() < 2 {
		return
	}
	w.Job.Spec.Completions = ptr.To(w.Ranks())
	c.Root.At("spec", "parallelism").AddNote(fmt.Sprintf(
		"spec.completions: %d is added; without it the Job is a work queue, whose pods have no rank", w.Ranks()), "")
}

// removeInjectedVars removes the variables that Rollcall sets, and sets the annotations that they imply.
func (c workloadConverter) removeInjectedVars() {
	injection := c.Context.Inject(c.w)
	c.w.Meta().Annotations = ir.MergeMaps(injection.Settings, c.w.Meta().Annotations)
	containers := ir.TrainingContainers(&c.w.Template().Spec, injection.TrainingContainers)
	ir.RemoveInjectedVars(containers, injection, func(container, name string) source.Field {
		return ir.FindEnvField(c.template, container, name)
	})
}

// removeSubdomain removes the subdomain of the pods if no text contains it, because Rollcall sets one
// with the name of the gang.
func (c workloadConverter) removeSubdomain() {
	spec := &c.w.Template().Spec
	if spec.Subdomain == "" || c.w.StatefulSet != nil {
		return
	}
	name := regexp.MustCompile(`(?:^|[^-0-9A-Za-z])` + regexp.QuoteMeta(spec.Subdomain) + `(?:$|[^-0-9A-Za-z])`)
	found := slices.ContainsFunc(c.Context.ConfigMapTexts, name.MatchString) ||
		ir.FindInTexts(name, ir.ListContainers(spec)...) != ""
	if found && spec.Subdomain != c.w.Meta().Name {
		return
	}
	c.template.At("spec", "subdomain").AddNoteWithOutcome(source.Preserved, "set by Rollcall", "", "")
	spec.Subdomain = ""
}
