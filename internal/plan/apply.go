package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
)

// Apply changes w as the plan requires. The training containers are those of g. Every init container
// also gets the variables, because preparation can depend on the rank.
//
// The warnings name the values of the user that differ from the plan and are kept. If Apply returns
// errors, the state of w is undefined: apply the plan to a copy.
func Apply(w gang.Workload, g gang.Gang, p Plan) (gang.Warnings, field.ErrorList) {
	annotationsPath := field.NewPath("metadata", "annotations")
	old, err := ReadRecord(w)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(annotationsPath.Key(gang.AnnotationInjected),
			w.Meta().Annotations[gang.AnnotationInjected],
			"is not a record of Rollcall, and only Rollcall writes this annotation; remove the annotation")}
	}
	a := &applier{
		pod: newPodTemplate(w.Template()), gang: g, plan: p,
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
		a.owned = old.unmodifiedTargets(a.pod)
	}
	a.removeStale()
	for _, kind := range targetKinds {
		kind.apply(a)
	}
	a.applyWorkloadFields(w, old)
	if len(a.errs) > 0 {
		return a.warnings, a.errs
	}
	if err := a.writeRecord(w, old); err != nil {
		return a.warnings, field.ErrorList{field.InternalError(annotationsPath, err)}
	}
	return a.warnings, nil
}

// applier is the state of one application of a plan.
type applier struct {
	pod    *podTemplate
	gang   gang.Gang
	plan   Plan
	record Record
	// owned are the targets that an earlier admission filled and nobody has edited since; applied are
	// the targets that this admission has filled.
	owned   map[target]bool
	applied []target
	// exitCodesWithoutRestart are the exit codes for which containers do not restart in place; nil if
	// containers never restart in place.
	exitCodesWithoutRestart []int32
	trainingNames           map[string]bool
	warnings                gang.Warnings
	errs                    field.ErrorList
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

func (a *applier) addWarning(path *field.Path, format string, args ...any) {
	a.warnings = append(a.warnings, gang.NewWarning(path, fmt.Sprintf(format, args...)))
}

// addReserved reports that the user has taken a name that the plan needs.
func (a *applier) addReserved(path *field.Path, name, object string) {
	a.errs = append(a.errs, field.Invalid(path, name, "is reserved by Rollcall; rename the "+object))
}

// writeRecord writes the record after all values are in place. An unchanged record is not written.
func (a *applier) writeRecord(w gang.Workload, old *Record) error {
	for _, t := range a.applied {
		t.recordDigest(&a.record, digestTarget(a.pod, t))
	}
	if w.StatefulSet != nil {
		a.record.Replicas = w.Ranks()
		if a.record.Replicas == 0 && old != nil {
			a.record.Replicas = old.Replicas // a suspended gang resumes with its previous size
		}
	}
	if old != nil && old.isEqual(&a.record) {
		return nil
	}
	return a.record.writeTo(w)
}
