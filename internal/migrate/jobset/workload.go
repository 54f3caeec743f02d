package jobset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// ConvertWorkload makes a gang of a Job or a StatefulSet that a user wrote without Rollcall: it sets
// the framework label, and removes the variables and the subdomain that Rollcall sets. It modifies
// the workload, which is the decoded manifest. A workload with the label can be a gang already, and
// then nothing is recorded.
//
// The error wraps [source.ErrNoGang] if the workload is not a gang, and states why.
func ConvertWorkload(o source.Object, w gang.Workload) error {
	o.Root.MarkHandled() // all other fields stay
	s, j := newWorkloadReader(o, w)
	isLabeled := w.HasFrameworkLabel()
	if !isLabeled {
		if reason := s.explainNoGang(w, j); reason != "" {
			return fmt.Errorf("%w: %s", source.ErrNoGang, reason)
		}
		metav1.SetMetaDataLabel(w.Meta(), gang.LabelFramework, s.Gang.Framework)
		if s.Context.Framework != "" {
			j.podTemplateField().AddNote("label "+gang.LabelFramework+": "+s.Gang.Framework+", as --framework requests", "")
		}
	}
	if _, ok := s.Context.Frameworks.Find(s.Gang.Framework); !ok {
		return nil // the webhook rejects it
	}
	j.Role = w.Meta().Labels[gang.LabelRole]
	if j.Role == "" {
		j.Role = s.framework().DefaultRole
	}
	setCompletions(o, w)
	if !isLabeled {
		s.reportJoinedPods(j)
	}
	s.chooseTrainingContainer(j)
	if !w.HasRoles() || !s.hasLauncher() { // a launcher passes its variables to the other ranks
		s.removeInjectedVars(j)
	}
	s.setAnnotations(w)
	*w.Template() = j.Template.Spec.Template
	if !isLabeled {
		s.removeSubdomain(w, j)
	}
	return nil
}

// newWorkloadReader returns a Reader of a JobSet with one job, which is the workload.
func newWorkloadReader(o source.Object, w gang.Workload) (*Reader, *ReplicatedJob) {
	j := &ReplicatedJob{
		Replicas: 1, PodsPerJob: w.Ranks(), Source: o.Root, podTemplate: o.Root.At("spec", "template"),
		workloadName: w.Meta().Name, serviceName: w.Template().Spec.Subdomain,
	}
	if w.StatefulSet != nil && w.StatefulSet.Spec.ServiceName != "" {
		j.serviceName = w.StatefulSet.Spec.ServiceName
	}
	if j.serviceName == "" {
		j.serviceName = w.Meta().Name
	}
	j.Template.Spec.Template = *w.Template()
	b := &ir.Gang{
		Name: w.Meta().Name, Namespace: w.Meta().Namespace, Source: o.Root, Framework: w.Meta().Labels[gang.LabelFramework],
		RollcallAnnotations: maps.Clone(w.Meta().Annotations),
	}
	if b.RollcallAnnotations == nil {
		b.RollcallAnnotations = map[string]string{}
	}
	s := &Reader{Object: o, Gang: b, Spec: o.Root.Get("spec"), Jobs: []*ReplicatedJob{j}}
	s.Context.Inject = func(probe gang.Workload) source.Injection {
		injected := w.DeepCopy()
		injected.Meta().Annotations = probe.Meta().Annotations
		*injected.Template() = *probe.Template()
		return o.Context.Inject(injected)
	}
	return s, j
}

// explainNoGang returns why a workload without the label is not a gang, or "". It sets the framework
// of a gang.
func (s *Reader) explainNoGang(w gang.Workload, j *ReplicatedJob) string {
	hasHostnames := w.StatefulSet != nil || w.Template().Spec.Subdomain != "" || isIndexed(w)
	s.Gang.Framework = s.Context.Framework
	switch {
	case w.OptedOut():
		return "it has the label " + gang.LabelInject + ": false"
	case len(w.Meta().OwnerReferences) > 0:
		return "another object creates it"
	case j.PodsPerJob < 2:
		return "it has only one pod"
	case w.Job != nil && ptr.Deref(w.Job.Spec.Completions, j.PodsPerJob) != j.PodsPerJob:
		return "completions differs from parallelism, so its pods do not run together"
	case s.Gang.Framework != "" && hasHostnames || s.detectFramework():
		return ""
	case s.Gang.Framework != "":
		return "its pods have neither an index nor hostnames, and no variable or command implies a framework; " +
			"if they train together, set the label " + gang.LabelFramework
	}
	return "no variable or command implies a framework; if its pods train together, set the label " + gang.LabelFramework
}

// isIndexed reports whether the workload is a Job whose pods have an index.
func isIndexed(w gang.Workload) bool {
	return w.Job != nil && w.Job.Spec.CompletionMode != nil && *w.Job.Spec.CompletionMode == "Indexed"
}

// setCompletions sets the number of completions of a Job without one, which would be a work queue.
func setCompletions(o source.Object, w gang.Workload) {
	if w.Job == nil || w.Job.Spec.Completions != nil || w.Ranks() < 2 {
		return
	}
	w.Job.Spec.Completions = ptr.To(w.Ranks())
	o.Root.At("spec", "parallelism").AddNote(fmt.Sprintf(
		"spec.completions: %d is added; without it the Job is a work queue, whose pods have no rank", w.Ranks()), "")
}

// setAnnotations sets the annotations that the removed variables imply.
func (s *Reader) setAnnotations(w gang.Workload) {
	for _, key := range slices.Sorted(maps.Keys(s.Gang.RollcallAnnotations)) {
		value := s.Gang.RollcallAnnotations[key]
		if before, ok := w.Meta().Annotations[key]; ok && before == value {
			continue
		}
		metav1.SetMetaDataAnnotation(w.Meta(), key, value)
	}
}

// removeSubdomain removes the subdomain of the pods if no text contains it, because Rollcall sets one
// with the name of the gang. A labeled workload keeps it: the Service of the gang then has its name.
func (s *Reader) removeSubdomain(w gang.Workload, j *ReplicatedJob) {
	spec := &w.Template().Spec
	if spec.Subdomain == "" || w.StatefulSet != nil {
		return
	}
	isRead := func(text string) bool { return containsName(text, spec.Subdomain) }
	found := slices.ContainsFunc(s.Context.ConfigMapTexts, isRead)
	for _, c := range ir.ListContainers(spec) {
		ir.VisitTexts(c, func(text *string) { found = found || isRead(*text) })
	}
	if found && spec.Subdomain != w.Meta().Name {
		return
	}
	j.podTemplateField().At("spec", "subdomain").AddNoteWithOutcome(source.Preserved, "set by Rollcall", "", "")
	spec.Subdomain = ""
}

// containsName reports whether a text contains a DNS label, and not only a longer one.
func containsName(text, name string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(name)
		if (start == 0 || !isHostnameByte(text[start-1])) && (end == len(text) || !isHostnameByte(text[end])) {
			return true
		}
		from = end
	}
}
