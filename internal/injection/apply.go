package injection

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/plan"
)

// Apply changes w as the plan requires. The training containers are those of g. Every init container
// also gets the variables, because preparation can depend on the rank. The build is that of the engine (gang.Config).
//
// The warnings name the values of the user that differ from the plan and are kept. If Apply returns
// denials, the state of w is undefined: apply the plan to a copy.
func Apply(w gang.Workload, g gang.Gang, p plan.Plan, build string) (gang.Warnings, gang.Denials) {
	old, err := ReadRecord(w)
	if err != nil {
		path := fieldpath.Annotations.Key(gang.AnnotationInjected)
		return nil, gang.Denials{{
			Error: field.Invalid(path, w.Meta().Annotations[gang.AnnotationInjected],
				"is not a record of Rollcall, and only Rollcall writes this annotation; remove the annotation"),
			Fix: gang.NewRemoveFix(path),
		}}
	}
	if w.Job != nil {
		p.Env = withCompletionIndex(p.Env, g)
	}
	pod := newPodTemplate(w.Template())
	a := &applier{
		comparison: comparison{workload: w, gang: g, plan: p, budget: maxComparedBytes},
		pod:        pod, digester: newDigester(pod), old: old,
		record:        Record{Injector: g.Framework.Name, Build: build, Values: make(map[string]string, usualValues)},
		trainingNames: map[string]bool{},
	}
	for _, c := range g.Containers {
		a.trainingNames[c.Name] = true
	}
	if old != nil {
		a.owned, _ = old.findUnmodified(a.digester)
		a.record.Defaults, a.record.Replicas = old.Defaults, old.Replicas // set before this injection
		for text, value := range old.Values {
			if strings.HasPrefix(text, KindField+"/") {
				a.record.Values[text] = value
			}
		}
	}
	a.applyInitContainers() // also get variables
	a.applyEnv()
	a.applyCommand()
	a.applyContainerFields()
	a.applyVolumes()
	a.applyResources()
	a.applyPodLabels()
	a.applyPodAnnotations()
	a.applyPlacement()
	a.applyDNSSearches()
	a.applyTolerations()
	a.removeStale()
	a.applyWorkloadFields()
	if len(a.denials) > 0 {
		return a.warnings, a.denials
	}
	if err := a.writeRecord(); err != nil {
		return a.warnings, gang.Denials{{Error: field.InternalError(fieldpath.Annotations, err)}}
	}
	return a.warnings, nil
}

// usualValues is the number of values of a usual plan, for which memory is reserved.
const usualValues = 32

// applier is the state of one application of a plan.
type applier struct {
	comparison
	pod      *podTemplate
	digester *digester
	// old is the record of an earlier admission, nil without one, and record is that of this admission.
	old    *Record
	record Record
	// owned are the targets that an earlier admission filled and that nobody has edited since.
	owned         map[key]bool
	trainingNames map[string]bool
	warnings      gang.Warnings
	denials       gang.Denials
}

// owns reports whether Rollcall has written a value that nobody has edited since.
func (a *applier) owns(kind, container, name string) bool {
	return len(a.owned) > 0 && a.owned[key{kind, container, name}]
}

// markApplied records that this admission has filled a target. The value is in its place.
func (a *applier) markApplied(kind, container, name string) {
	k := key{kind, container, name}
	a.record.Values[k.String()] = a.digester.digest(k)
}

// removeStale clears the owned targets that this admission has not filled. It is last, so that paths and remedies
// in messages are those of the object that the user sent.
func (a *applier) removeStale() {
	for k := range a.owned {
		if !a.record.has(k) {
			targets[k.kind].remove(a.pod, k)
		}
	}
}

// trainingContainers returns views of the training containers.
func (a *applier) trainingContainers() []*container {
	var containers []*container
	for _, c := range a.gang.Containers {
		containers = append(containers, a.pod.containersByName[c.Name])
	}
	return containers
}

// writeRecord writes the record with the size.
func (a *applier) writeRecord() error {
	if a.workload.StatefulSet == nil {
		a.record.Replicas = 0
	} else if size := a.workload.Ranks(); size > 0 { // a suspended gang resumes with its previous size
		a.record.Replicas = size
	}
	return a.record.WriteTo(a.workload)
}
