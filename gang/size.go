package gang

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// size checks the number of the workload's pods. Ranks need indexes and must all
// run at once, so a Job has to be one that can be Indexed with completions =
// parallelism.
func (p *parser) size() {
	if p.workload.Job != nil {
		p.jobSize(&p.workload.Job.Spec)
		return
	}
	p.statefulSetSize()
}

func (p *parser) jobSize(spec *batchv1.JobSpec) {
	path := field.NewPath("spec")
	// Absent fields mean what the API server's defaulting makes of them: both
	// absent is one pod; completions alone leaves parallelism at 1.
	parallelism := p.workload.Ranks()
	if parallelism < 1 {
		p.invalid(path.Child("parallelism"), parallelism,
			"a gang has at least 1 rank; set parallelism and completions to the number of ranks, and spec.suspend: true to hold the Job back")
		return
	}
	if p.tooMany(path.Child("parallelism"), parallelism) {
		return
	}
	switch {
	case spec.Completions == nil && spec.Parallelism != nil && parallelism > 1:
		p.errs = append(p.errs, field.Required(path.Child("completions"), fmt.Sprintf(
			"without completions this is a work-queue Job, whose pods have no index and thus no rank; set completions: %d", parallelism)))
	case spec.Completions != nil && *spec.Completions != parallelism:
		p.invalid(path.Child("completions"), *spec.Completions, fmt.Sprintf(
			"all ranks of a gang run at once: must equal parallelism (%d); set both to the number of ranks", parallelism))
	}
	if p.workload.Foreign() {
		p.warn(path.Child("managedBy"), fmt.Sprintf("%q runs this Job, not the Job controller; Rollcall injects and only watches", *spec.ManagedBy))
	}
}

func (p *parser) statefulSetSize() {
	spec, path := &p.workload.StatefulSet.Spec, field.NewPath("spec")
	replicas := p.workload.Ranks()
	if replicas < 1 {
		p.invalid(path.Child("replicas"), replicas, "a gang has at least 1 rank")
		return
	}
	if p.tooMany(path.Child("replicas"), replicas) {
		return
	}
	if spec.Ordinals != nil && spec.Ordinals.Start != 0 {
		p.invalid(path.Child("ordinals", "start"), spec.Ordinals.Start,
			"ranks are the pods' ordinals and start at 0; remove spec.ordinals")
	}
}

// tooMany refuses a number of pods that no API server takes for an Indexed Job, before
// anything is made that has a part for each.
func (p *parser) tooMany(path *field.Path, pods int32) bool {
	if pods <= maxPods {
		return false
	}
	p.invalid(path, pods, fmt.Sprintf("a gang has at most %d pods in one workload", maxPods))
	return true
}
