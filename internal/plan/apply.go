package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
)

// Apply changes w as the plan requires. The training containers are those of g. Every init container
// also gets the variables, because preparation can depend on the rank.
//
// The warnings name the values of the user that differ from the plan and are kept. If Apply returns
// denials, the state of w is undefined: apply the plan to a copy.
func Apply(w gang.Workload, g gang.Gang, p Plan) (gang.Warnings, gang.Denials) {
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
	a := &applier{
		workload: w, pod: newPodTemplate(w.Template()), gang: g, plan: p, budget: maxComparedBytes,
		record:        Record{Injector: p.Injector, Build: p.Build},
		trainingNames: map[string]bool{},
	}
	for _, c := range g.Containers {
		a.trainingNames[c.Name] = true
	}
	if w.Job != nil && p.RestartInPlace {
		a.exitCodesWithoutRestart = findExitCodesWithoutRestart(w.Job)
	}
	if old != nil {
		a.recorded, a.owned = old.digestsByTarget(), old.unmodifiedTargets(a.pod)
	}
	a.removeStale()
	for _, kind := range targetKinds {
		kind.apply(a)
	}
	a.applyWorkloadFields(w, old)
	if len(a.denials) > 0 {
		return a.warnings, a.denials
	}
	if err := a.writeRecord(w, old); err != nil {
		return a.warnings, gang.Denials{{Error: field.InternalError(fieldpath.Annotations, err)}}
	}
	return a.warnings, nil
}

// applier is the state of one application of a plan.
type applier struct {
	workload gang.Workload
	pod      *podTemplate
	gang     gang.Gang
	plan     Plan
	record   Record
	// recorded are the targets that an earlier admission filled, with their digests. owned are those
	// that nobody has edited since. applied are the targets that this admission has filled.
	recorded map[target]string
	owned    map[target]bool
	applied  []target
	// exitCodesWithoutRestart are the exit codes for which containers do not restart in place; nil if
	// containers never restart in place.
	exitCodesWithoutRestart []int32
	trainingNames           map[string]bool
	// budget is that of envComparer.
	budget   int
	warnings gang.Warnings
	denials  gang.Denials
}

// removeStale clears the owned targets that the plan does not fill.
func (a *applier) removeStale() {
	if len(a.owned) == 0 {
		return
	}
	planned := map[target]bool{}
	for _, kind := range targetKinds {
		for _, t := range kind.planned(a) {
			planned[t] = true
		}
	}
	for t := range a.owned {
		if !planned[t] {
			t.removeFrom(a.pod)
			delete(a.owned, t)
		}
	}
}

func (a *applier) isTrainingContainer(name string) bool {
	return a.trainingNames[name]
}

// forEachTrainingContainer returns one target for each training container.
func (a *applier) forEachTrainingContainer(newTarget func(container string) target) []target {
	var targets []target
	for _, c := range a.gang.Containers {
		targets = append(targets, newTarget(c.Name))
	}
	return targets
}

// trainingContainers returns views of the training containers.
func (a *applier) trainingContainers() []*container {
	var containers []*container
	for _, c := range a.gang.Containers {
		containers = append(containers, a.pod.containersByName[c.Name])
	}
	return containers
}

// firstTrainingContainer returns a view of the first training container.
func (a *applier) firstTrainingContainer() *container {
	return a.pod.containersByName[a.gang.Containers[0].Name]
}

// addAdvice adds a remark about a value of the user that works.
func (a *applier) addAdvice(path *field.Path, format string, args ...any) {
	a.addWarning(path, format, args...)
	a.warnings[len(a.warnings)-1].Advice = true
}

func (a *applier) addWarning(path *field.Path, format string, args ...any) {
	a.warnings = append(a.warnings, gang.NewWarning(path, fmt.Sprintf(format, args...)))
}

// addReserved reports that the user has taken a name that the plan needs.
func (a *applier) addReserved(path *field.Path, name, object string) {
	a.deny(field.Invalid(path, name, "is reserved by Rollcall; rename the "+object), nil)
}

// addChanged reports a value of Rollcall that was changed after the injection. Removing the object at
// objectPath lets Rollcall add it again.
func (a *applier) addChanged(path *field.Path, value string, objectPath *field.Path, object string) {
	a.deny(field.Invalid(path, shortenValue(value), fmt.Sprintf(
		"was changed after Rollcall injected it, by an edit or by another webhook; remove the %s from the manifest, "+
			"or exclude it from the other webhook", object)), gang.NewRemoveFix(objectPath))
}

// maxConflicts limits the denials and the warnings about variables. A person fixes a few at a time.
const maxConflicts = 20

// deny reports a mistake of the user and its remedy.
func (a *applier) deny(err *field.Error, fix gang.Fix) {
	a.denials = append(a.denials, gang.Denial{Error: err, Fix: fix})
}

// writeRecord writes the record after all values are in place. An unchanged record is not written.
func (a *applier) writeRecord(w gang.Workload, old *Record) error {
	digester := newDigester(a.pod)
	for _, t := range a.applied {
		t.recordDigest(&a.record, digester.digestTarget(t))
	}
	if w.StatefulSet != nil {
		a.record.Replicas = w.Ranks()
		if a.record.Replicas == 0 && old != nil {
			a.record.Replicas = old.Replicas // a suspended gang resumes with its previous size
		}
	}
	if old != nil {
		a.record.Defaults = old.Defaults // set before the injection
	}
	if old != nil && old.isEqual(&a.record) {
		return nil
	}
	return a.record.WriteTo(w)
}
