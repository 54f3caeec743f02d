package gang

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkSize checks the number of pods. All ranks need an index and must run at the same time, so a
// Job must be convertible to an Indexed Job with completions equal to parallelism. It reports a size above [MaxPods]
// before memory is allocated for each pod.
func (p *parser) checkSize() {
	path, pods := p.sizePath(), p.workload.Ranks()
	switch {
	case pods < 1 && p.workload.Job != nil:
		p.addInvalid(path, pods, "must be at least 1; set parallelism and completions to the number of ranks, "+
			"and to keep the Job from starting, set spec.suspend: true")
	case pods < 1:
		p.addInvalid(path, pods, "must be at least 1; set replicas to the number of ranks")
	case pods > MaxPods:
		p.addInvalid(path, pods, fmt.Sprintf("must be at most %d, the maximum of an Indexed Job; use fewer pods", MaxPods))
	case p.workload.Job != nil:
		p.checkCompletions(&p.workload.Job.Spec)
	default:
		p.checkOrdinals(&p.workload.StatefulSet.Spec)
	}
}

// checkCompletions checks the fields of a Job next to its parallelism. Admission sets absent completions.
func (p *parser) checkCompletions(spec *batchv1.JobSpec) {
	path, parallelism := field.NewPath("spec"), p.workload.Ranks()
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

func (p *parser) checkOrdinals(spec *appsv1.StatefulSetSpec) {
	if path := field.NewPath("spec", "ordinals"); spec.Ordinals != nil && spec.Ordinals.Start != 0 {
		p.addInvalid(path.Child("start"), spec.Ordinals.Start,
			"must be 0, because ranks are the ordinals of pods; remove spec.ordinals")
		p.setFix(NewRemoveFix(path))
	}
}
