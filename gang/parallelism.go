package gang

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkSize checks the number of pods. All ranks need an index and must run at the same time, so a
// Job must be convertible to an Indexed Job with completions equal to parallelism.
func (p *parser) checkSize() {
	if p.workload.Job != nil {
		p.checkJobSize(&p.workload.Job.Spec)
		return
	}
	p.checkStatefulSetSize()
}

func (p *parser) checkJobSize(spec *batchv1.JobSpec) {
	path := field.NewPath("spec")
	// The API server sets an absent parallelism to 1. Admission sets absent completions.
	parallelism := p.workload.Ranks()
	if parallelism < 1 {
		p.addInvalid(path.Child("parallelism"), parallelism,
			"must be at least 1; set parallelism and completions to the number of ranks, "+
				"and to keep the Job from starting, set spec.suspend: true")
		return
	}
	if p.rejectTooManyPods(path.Child("parallelism"), parallelism) {
		return
	}
	if spec.Completions != nil && *spec.Completions != parallelism {
		name, size := "parallelism", *spec.Completions
		if size < parallelism {
			name, size = "completions", parallelism
		}
		p.addInvalid(path.Child("completions"), *spec.Completions, fmt.Sprintf(
			"must equal parallelism (%d), because all ranks run at the same time; set %s to %d", parallelism, name, size))
		p.setFix(NewSetFix(path.Child(name), size))
	}
	switch {
	case p.workload.IsCopiedByKueue():
		p.addWarning(path.Child("managedBy"),
			"Kueue runs a copy of this Job in another cluster, where Rollcall manages the copy; "+
				"the Job in this cluster has no phase, and its conditions are those of the copy")
	case p.workload.IsManagedExternally():
		p.addWarning(path.Child("managedBy"), fmt.Sprintf(
			"%q runs this Job instead of the Job controller; Rollcall injects the Job and does not manage it",
			*spec.ManagedBy))
	}
}

func (p *parser) checkStatefulSetSize() {
	spec, path := &p.workload.StatefulSet.Spec, field.NewPath("spec")
	replicas := p.workload.Ranks()
	if replicas < 1 {
		p.addInvalid(path.Child("replicas"), replicas, "must be at least 1; set replicas to the number of ranks")
		return
	}
	if p.rejectTooManyPods(path.Child("replicas"), replicas) {
		return
	}
	if spec.Ordinals != nil && spec.Ordinals.Start != 0 {
		p.addInvalid(path.Child("ordinals", "start"), spec.Ordinals.Start,
			"must be 0, because ranks are the ordinals of pods; remove spec.ordinals")
		p.setFix(NewRemoveFix(path.Child("ordinals")))
	}
}

// rejectTooManyPods reports a size above [MaxPods], before memory is allocated for each pod.
func (p *parser) rejectTooManyPods(path *field.Path, pods int32) bool {
	if pods <= MaxPods {
		return false
	}
	p.addInvalid(path, pods, fmt.Sprintf("must be at most %d, the maximum of an Indexed Job; use fewer pods", MaxPods))
	return true
}
