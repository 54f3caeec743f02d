package simulation

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// recordSuccess records that a rank has finished its work. A rank of an earlier attempt has to do it again, unless its
// gang is suspended: the next attempt has no ranks then. A Job that nobody suspended keeps the number of its attempt
// when the other members are resumed.
func (o *oracle) recordSuccess(p *process) {
	attempt, hasAttempt := gang.PodAttempt(p.pod)
	name, current := controllerOf(p.pod), o.final.Attempt
	if job, ok := o.api.find(jobKind, name).(*batchv1.Job); ok {
		current = min(current, gang.Workload{Job: job}.TemplateAttempt())
	}
	if hasAttempt && attempt < current && o.final.Phase != lifecycle.Suspended {
		o.repetitions++
		return
	}
	if o.final.Attempt > 0 && o.final.Phase == lifecycle.Pending {
		o.repetitions++ // the cache of the pods may not show the rank before its Job counts it
	}
	if o.succeeded[name] == nil {
		o.succeeded[name] = sets.Set[int32]{}
	}
	o.succeeded[name].Insert(gang.PodIndex(p.pod))
}

// forgetSuccess forgets the ranks of a suspended Job that have succeeded, because all of its ranks run again.
// A Job with all successes that it needs completes.
func (o *oracle) forgetSuccess(job *batchv1.Job) {
	if int32(o.succeeded[job.Name].Len()) < cmp.Or(o.scenario.SucceededCount, *job.Spec.Completions) {
		delete(o.succeeded, job.Name)
	}
}

// isResultObserved reports whether a manager that runs has observed the result of a Job.
func (s *simulation) isResultObserved(job types.UID) bool {
	return slices.ContainsFunc(s.leaders(), func(m *manager) bool { return m.observedResults.Has(job) })
}

// noteExpiredResult records what the gang does not know after the time to live of a Job has passed.
func (s *simulation) noteExpiredResult(job *batchv1.Job) {
	if !s.isResultObserved(job.UID) {
		s.oracle.loseResult(job.UID)
	}
	if s.isFailureKnownOnlyTo(job.Name) {
		s.oracle.disruptions++ // the deletion of a member that ran
	}
}

// isFailureKnownOnlyTo reports whether the status of a member says that the gang failed, and that of another does not,
// because the API server refused the change of the latter.
func (s *simulation) isFailureKnownOnlyTo(name string) bool {
	var isKnown, isUnknown bool
	for _, m := range s.scenario.members() {
		w, ok := s.member(m)
		if !ok {
			continue
		}
		if isFailed := lifecycle.ReadStatus(w).Phase == lifecycle.Failed; m.name == name {
			isKnown = isFailed
		} else if !isFailed {
			isUnknown = true
		}
	}
	return isKnown && isUnknown
}

// loseResult records that a completed Job is gone whose result nobody knows. It seems to be a deleted member.
func (o *oracle) loseResult(job types.UID) {
	delete(o.expired, job)
	o.resultLost = true
	o.disruptions++
}

// forgetResults finds the results that no status contains, and that no manager knows any more.
func (o *oracle) forgetResults() {
	for job, name := range o.expired {
		_, isRecorded := o.final.CompletedMembers[name]
		if !isRecorded && !o.final.Phase.Terminal() && !o.isResultObserved(job) {
			o.loseResult(job)
		}
	}
}

// checkSucceeded checks that the ranks of the members that decide have finished their work.
func (o *oracle) checkSucceeded(after lifecycle.Status) {
	if o.mayExitUnobserved {
		return // docs/tasks/configure-completion.md
	}
	for _, m := range o.scenario.members() {
		if !m.decides {
			continue
		}
		if count := o.scenario.SucceededCount; count > 0 && int32(o.succeeded[m.name].Len()) >= count {
			continue
		}
		for index := range o.sizeOf(m) {
			if !o.succeeded[m.name].Has(index) {
				o.violate(succeededTooEarly, "rank %d of %s has not finished: %s", index, m.name, after.Message)
				return
			}
		}
	}
}
