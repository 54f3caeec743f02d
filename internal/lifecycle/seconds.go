package lifecycle

import (
	"iter"
	"time"
)

// Seconds contains how long a gang did what, from the creation of its workload until its last transition. The sum
// of the fields is that period, or shorter if the clock was set back, or if an earlier build wrote the first states.
// The time counts by the phase in which the gang was by its status: until a failure is observed, a gang runs.
type Seconds struct {
	// Starting is the time until all ranks were ready, of the first attempt and of attempts after a suspension.
	Starting int64 `json:"starting,omitempty"`
	// Ran is the time in Running, in an attempt that has not ended or that completed the gang.
	Ran int64 `json:"ran,omitempty"`
	// Suspended is the time in which a user or a queue suspended the gang.
	Suspended int64 `json:"suspended,omitempty"`
	// Restarting is the time from the decision to restart until all ranks were ready, and the time in which a rank was
	// not ready any more. It contains no time in Suspended.
	Restarting int64 `json:"restarting,omitempty"`
	// RanBeforeFailure, RanBeforeDisruption and RanBeforeSuspension are the time in Running in attempts that ended so.
	// Nobody knows how much of it the next attempts repeat. That depends on their checkpoints.
	RanBeforeFailure    int64 `json:"ranBeforeFailure,omitempty"`
	RanBeforeDisruption int64 `json:"ranBeforeDisruption,omitempty"`
	RanBeforeSuspension int64 `json:"ranBeforeSuspension,omitempty"`
}

// maxSeconds is the maximum of each field: 100 years.
const maxSeconds = 100 * 366 * 24 * 3600

// ActivityRan is the activity of Ran, which decreases when an attempt ends.
const ActivityRan = "ran"

// All returns the fields by the values of the label activity in metrics.
func (s Seconds) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		_ = yield("starting", s.Starting) && yield(ActivityRan, s.Ran) && yield("suspended", s.Suspended) &&
			yield("restarting", s.Restarting) && yield("ran_before_failure", s.RanBeforeFailure) &&
			yield("ran_before_disruption", s.RanBeforeDisruption) && yield("ran_before_suspension", s.RanBeforeSuspension)
	}
}

// Total returns the sum of all fields.
func (s Seconds) Total() int64 {
	var total int64
	for _, seconds := range s.All() {
		total += seconds
	}
	return total
}

// limited returns the seconds with fields between 0 and maxSeconds.
func (s Seconds) limited() Seconds {
	for _, field := range []*int64{
		&s.Starting, &s.Ran, &s.Suspended, &s.Restarting,
		&s.RanBeforeFailure, &s.RanBeforeDisruption, &s.RanBeforeSuspension,
	} {
		*field = min(max(*field, 0), maxSeconds)
	}
	return s
}

// SecondsAt returns the seconds of a gang that is still in its phase at a time.
func (s State) SecondsAt(now time.Time) Seconds { return s.countSeconds(s.Phase, now) }

// countSeconds returns the seconds when the gang leaves its phase for the phase next. The first failure must be the one
// for which it does. If a workload fails without a failed pod, it is that of an earlier attempt. A gang that has
// finished counts no more. If it starts again, its seconds start at 0.
func (s State) countSeconds(next Phase, now time.Time) Seconds {
	switch {
	case s.Phase.Terminal() && next.Terminal():
		return s.Seconds
	case s.Phase.Terminal():
		return Seconds{}
	}
	out, start := s.Seconds, s.LastTransitionTime
	if start.IsZero() {
		start = s.AttemptStartTime
	}
	elapsed := max(0, now.Unix()-start.Unix())
	switch {
	case start.IsZero():
	case s.Phase == Running:
		out.Ran += elapsed
	case s.Phase == Suspended:
		out.Suspended += elapsed
	case s.Phase == Restarting || s.StartCompleted || s.FollowsRestart:
		out.Restarting += elapsed
	default:
		out.Starting += elapsed
	}
	// While a gang restarts, an earlier failure of the other kind may be reported.
	if s.Phase == Restarting || next == Suspended || next == Failed {
		out = s.endAttempt(next, out)
	}
	return out.limited()
}

// endAttempt returns the seconds with the time that the attempt ran under the cause of its end.
func (s State) endAttempt(next Phase, out Seconds) Seconds {
	cause := &out.RanBeforeFailure
	switch {
	case next == Succeeded:
		return out
	case next == Suspended && s.Phase != Restarting:
		cause = &out.RanBeforeSuspension
	case s.FirstFailure.IsDisruption():
		cause = &out.RanBeforeDisruption
	}
	*cause, out.Ran = *cause+out.Ran, 0
	return out
}
