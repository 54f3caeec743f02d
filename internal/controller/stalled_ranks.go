package controller

import (
	"fmt"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/ranges"
)

// stallReportInterval is the minimum time between two reports of stalled ranks. A timeout that is shorter than some
// steps would otherwise cost two writes for each of these steps.
const stallReportInterval = 10 * time.Minute

// stallStatus returns the reason and the message for a gang with stalled ranks that are only reported; the zero value
// without such a rank. The message stays until all of them make progress, so a stall costs two writes.
func (r *Reconciler) stallStatus(g *observedGang, next lifecycle.State) lifecycle.Status {
	stall := g.observed.Stall
	// A StatefulSet counts only ready pods, so its gang is not Running while a rank stalls.
	wereAllReady := next.Phase == lifecycle.Running || next.Phase.Active() && next.StartCompleted
	if len(stall.Ranks) == 0 && stall.Silence == "" || !wereAllReady {
		return lifecycle.Status{}
	}
	if last := g.lastStatusWithReason(gang.ReasonStalled); last.Reason != "" {
		return last
	}
	now, due := r.Clock.Now(), g.pass.session.stallReportTime.Add(stallReportInterval)
	if now.Before(due) {
		g.pass.requeueAfter(due.Sub(now))
	}
	if now.Before(due) || now.Before(stall.ReportTime) {
		return lifecycle.Status{}
	}
	message := stall.Silence
	if len(stall.Ranks) > 0 { // is more exact
		message = fmt.Sprintf("%s did not write %s for %s", formatRanks(stall.Ranks), stall.Rules.File, stall.Rules.Timeout)
	}
	return lifecycle.Status{Reason: gang.ReasonStalled, Message: message}
}

// recordStall records that a report of stalled ranks, or its end, was written to a member. It returns false if an Event
// about the same was recorded before in this attempt.
func (s *session) recordStall(m member, last, next lifecycle.Status, now time.Time) bool {
	isReport, isEnd := next.Reason == gang.ReasonStalled, last.Reason == gang.ReasonStalled
	if isReport == isEnd || last.Phase != next.Phase {
		return true
	}
	if isReport {
		s.stallReportTime = now
	}
	return s.recordReport(fmt.Sprintf("%s %s %d %t", gang.ReasonStalled, m.Meta().UID, next.Attempt, isReport))
}

// formatRanks returns ranks as the subject of a sentence.
func formatRanks(ranks []int32) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("Rank %d", ranks[0])
	}
	return "Ranks " + ranges.Of(ranks).String()
}
