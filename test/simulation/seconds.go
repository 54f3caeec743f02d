package simulation

import (
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// checkSeconds checks the seconds of a status against the clock. The times of the status count only within the run in
// which they were recorded.
func (o *oracle) checkSeconds(before client.Object, after lifecycle.Status) {
	total, wall := time.Duration(after.Seconds.Total())*time.Second, o.now.Sub(epoch)
	// Each failover to a manager whose clock is ahead adds the difference once.
	if total > wall+time.Duration(len(o.managers))*o.scenario.ManagerSkew.Abs()+time.Second {
		o.violate(wrongSeconds, "%s of %s: %+v", total, wall, after.Seconds)
	}
	if o.ended || o.scenario.ManagerSkew != 0 || after.Phase == "" || before == nil {
		return
	}
	old, err := gang.WorkloadOf(clone(before))
	last := lifecycle.ReadStatus(old)
	if err != nil || last.LastTransitionTime.IsZero() && o.isMemberRecreated() {
		return // the first status of this member is that of the other members
	}
	if last.Phase.Terminal() && (!after.Phase.Terminal() || o.isMemberRecreated()) {
		return // a new run counts from 0, also if a member of the last run fails it at once
	}
	counted := time.Duration(last.Seconds.Total()) * time.Second
	earliest, latest := o.startTimes(last)
	low, high := after.LastTransitionTime.Sub(latest), after.LastTransitionTime.Sub(earliest)
	if total-counted < low || total-counted > max(0, high) {
		o.violate(wrongSeconds, "%s became %s, but %s passed: %+v", counted, total, high, after.Seconds)
	}
}

// startTimes returns the earliest and the latest time from which the status after a status may count. A report on a
// member that had no status counts from the creation of the member, and one that begins a new run from its own time.
func (o *oracle) startTimes(last lifecycle.Status) (earliest, latest time.Time) {
	earliest, latest = last.LastTransitionTime, last.LastTransitionTime
	isReport := last.Reason == gang.ReasonRequestRejected || last.Reason == gang.ReasonMemberConflict
	if last.LastTransitionTime.IsZero() || isReport && last.Seconds.Total() == 0 {
		earliest, latest = o.creationTimes()
		if latest.Before(last.LastTransitionTime) {
			latest = last.LastTransitionTime
		}
	}
	return earliest, latest
}

// creationTimes returns when the first and the last member that exists was created, to the second.
func (o *oracle) creationTimes() (earliest, latest time.Time) {
	for _, m := range o.scenario.members() {
		w, ok := o.member(m)
		if !ok {
			continue
		}
		created := w.Meta().CreationTimestamp.Truncate(time.Second)
		if earliest.IsZero() || created.Before(earliest) {
			earliest = created
		}
		if created.After(latest) {
			latest = created
		}
	}
	return earliest, latest
}

// isMemberRecreated reports whether a user may have created a member again.
func (o *oracle) isMemberRecreated() bool {
	return slices.ContainsFunc(o.scenario.Incidents, func(i Incident) bool { return i.Kind == memberDeleted })
}
