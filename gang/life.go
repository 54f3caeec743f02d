package gang

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is where a gang stands in its life. It is kept on its members, in the
// annotation [AnnotationStatus], and is all that is kept: whoever follows the gang next
// finds there what has been decided, and what is still to be done of it.
type State struct {
	// Phase is the gang's.
	Phase Phase
	// Since is when the phase was entered, to the second.
	Since time.Time
	// Attempt is the number of restarts that were decided so far.
	Attempt int32
	// Begun is when the present attempt's ranks were let go; the zero value means with
	// the workload itself.
	Begun time.Time
	// WasWhole is true when all ranks of the present attempt were ready before, and not all
	// have been since: its start is over, whatever becomes of it.
	WasWhole bool
	// NotBefore is when a gang that restarts may begin anew.
	NotBefore time.Time
	// Fell is when the last restart was decided; zero when there was none.
	Fell time.Time
	// Counted is how many fallen pods the workloads counted when the present attempt
	// began. More of them mean a fall, seen or not.
	Counted int32
	// Cause is why the gang restarted last, or failed; nil when it did neither, or when
	// its workload failed without us.
	Cause *Fall
}

// Sight is what one look at a gang finds.
type Sight struct {
	// Roll is what the members' own status says.
	Roll Roll
	// Fall is the first fall among the pods of the present attempt; of the one that fell,
	// while the gang is stopped for the next.
	Fall *Fall
	// Lacking says which ranks are not ready, and why.
	Lacking []string
	// Started is true when some rank has been ready for a while.
	Started bool
	// Stopped is true when no pod of the gang is left that runs, and none will come.
	Stopped bool
	// Uncounted is how many pods fell or were told to go that their Job has yet to count.
	Uncounted int32
	// Leaving is true when some pod that was told to go is not gone yet.
	Leaving bool
	// Resumed is true when somebody else has let a stopped gang go, as Kueue does.
	Resumed bool
	// Now is the time of the look.
	Now time.Time
}

// Back-off between attempts: none before the first restart, since most falls are the
// node's and not the program's, then 10 s, doubled each time, as the Job controller
// has it for pods (kubernetes pkg/controller/job, DefaultJobPodFailureBackOff), up to 5
// minutes, half of that controller's bound, since it is whole gangs that hold nodes.
const (
	firstBackoff = 10 * time.Second
	mostBackoff  = 5 * time.Minute
)

// Backoff is how long a gang waits before it begins its nth restart, n from 1.
func Backoff(n int32) time.Duration {
	if n <= 1 {
		return 0
	}
	d := firstBackoff
	for range n - 2 {
		if d *= 2; d >= mostBackoff {
			return mostBackoff
		}
	}
	return d
}

// Next is the gang's state after a look. It is a pure function: looked at again with
// nothing moved, the gang stays as it is.
func (s State) Next(l Lifecycle, see Sight) State {
	switch {
	case s.Phase.Terminal() && see.Resumed && see.Roll.verdict("") == "":
		// A StatefulSet that its user scaled up again: another life.
		s = State{Begun: see.Now.UTC().Truncate(time.Second)}
	case s.Phase == Failed && s.Cause != nil:
		s.Cause = Earlier(s.Cause, see.Fall)
		return s // decided here, and final
	}
	if v := see.Roll.verdict(s.Phase); v != "" {
		return s.ended(v, see)
	}
	if s.Phase == Restarting {
		return s.restarted(l, see)
	}
	if s.Phase == Suspended && !see.Roll.suspended() {
		if see.Leaving {
			return s // they go since the gang was held back, and that is no fall
		}
		s.Begun, s.Counted = see.Now.UTC().Truncate(time.Second), see.Roll.Fallen()+see.Uncounted
		s.WasWhole = false
	}
	if f := s.fallen(l, see); f != nil {
		return s.fall(l, see, f)
	}
	return s.enter(s.toward(see), see.Now)
}

// toward is the phase of a gang that neither ended nor fell.
func (s State) toward(see Sight) Phase {
	next := Next(s.Phase, see.Roll)
	switch {
	case next == Pending && see.Roll.suspended() && len(see.Roll.Missing()) == 0:
		return Suspended
	case next == Pending && (see.Started || s.Phase == Starting):
		return Starting
	}
	return next
}

// ended is the state of a gang that has a verdict. A Job that failed by its own rules
// says how many pods did, and not which, or why.
func (s State) ended(v Phase, see Sight) State {
	switch f := see.Fall; {
	case v != Failed || s.Phase == Failed || f == nil || f.Reason == FallDeleted:
	case s.Phase == Restarting:
		s.Cause = Earlier(s.Cause, f) // it failed while it was stopped for that
	default:
		s.Cause = f
	}
	return s.enter(v, see.Now)
}

// enter moves to a phase; the present one is kept with its time.
func (s State) enter(p Phase, now time.Time) State {
	if s.Phase == p {
		return s
	}
	s.WasWhole = s.WasWhole || s.Phase == Running && (p == Pending || p == Starting)
	s.Phase, s.Since = p, now.UTC().Truncate(time.Second)
	return s
}

// fallen is why the gang cannot go on; nil when it can, or when that is not ours to say.
func (s State) fallen(l Lifecycle, see Sight) *Fall {
	if l.Restart != RestartGang && l.Restart != RestartNever || see.Roll.HeldBack() || see.Roll.Ending() {
		return nil
	}
	if see.Fall != nil {
		return see.Fall
	}
	if n := see.Roll.Fallen(); n > s.Counted {
		return &Fall{Rank: -1, Reason: FallUnseen, At: see.Now.UTC().Truncate(time.Second),
			Message: fmt.Sprintf("%d pods failed, or were taken away, and are gone", n-s.Counted)}
	}
	if l.StartTimeout > 0 && s.Phase != Running && !s.WasWhole && !s.Begun.IsZero() && see.Now.Sub(s.Begun) >= l.StartTimeout {
		return &Fall{Rank: -1, Reason: FallLate, At: see.Now.UTC().Truncate(time.Second),
			Message: fmt.Sprintf("not all ranks were ready within %s: %s", l.StartTimeout, strings.Join(see.Lacking, "; "))}
	}
	return nil
}

// fall decides what becomes of a gang that cannot go on.
func (s State) fall(l Lifecycle, see Sight, f *Fall) State {
	s.Cause = f
	if l.Restart == RestartNever || l.final(f) || s.Attempt >= l.MaxRestarts || see.Roll.Spent() {
		return s.enter(Failed, see.Now)
	}
	s.Attempt, s.WasWhole = s.Attempt+1, false
	s = s.enter(Restarting, see.Now)
	s.Fell, s.NotBefore = s.Since, s.Since.Add(Backoff(s.Attempt))
	return s
}

// restarted lets a gang go that has stopped and waited.
func (s State) restarted(l Lifecycle, see Sight) State {
	s.Cause = Earlier(s.Cause, see.Fall) // the first to fall is not always the first to be reported
	switch {
	case l.final(s.Cause):
		return s.enter(Failed, see.Now)
	case see.Roll.suspended():
		s.NotBefore = time.Time{} // whoever lets it go decides when
		return s.enter(Suspended, see.Now)
	case see.Resumed && see.Leaving:
		return s // their Job counts them when they are gone, and that is no other fall
	case !see.Resumed && (!see.Stopped || see.Now.Before(s.NotBefore)):
		return s
	}
	if !see.Resumed && see.Roll.queued() {
		s.NotBefore = time.Time{} // its queue lets it go, when it has room
		return s.enter(Suspended, see.Now)
	}
	s = s.enter(Pending, see.Now)
	s.Begun, s.NotBefore, s.Counted = s.Since, time.Time{}, see.Roll.Fallen()+see.Uncounted
	return s
}

// Describe says the state in a sentence for users. It holds nothing that moves while
// the phase stays: each change of it would be one more write.
func (s State) Describe(l Lifecycle, r Roll) string {
	switch {
	case s.Phase == Restarting:
		return fmt.Sprintf("Attempt %d of %d: %s", s.Attempt, l.MaxRestarts, s.Cause)
	case s.Phase == Pending && s.Attempt > 0 && r.HeldBack(): // by us, until this is written
		return fmt.Sprintf("Attempt %d of %d begins", s.Attempt, l.MaxRestarts)
	case s.Phase == Failed && s.Cause != nil && r.Spent():
		return fmt.Sprintf("The gang failed when some of its ranks were done, which Kubernetes never starts again: %s", s.Cause)
	case s.Phase == Failed && l.final(s.Cause):
		return fmt.Sprintf("The gang failed for good with an exit code that is final: %s", s.Cause)
	case s.Phase == Failed && s.Cause != nil:
		return fmt.Sprintf("The gang failed after %s: %s", times(s.Attempt), s.Cause)
	case s.Phase == Suspended:
		return s.heldBack(l, r)
	default:
		return r.Describe(s.Phase)
	}
}

// heldBack says whom a gang waits for, as far as that is known.
func (s State) heldBack(l Lifecycle, r Roll) string {
	if s.Attempt > 0 && r.queued() {
		return fmt.Sprintf("Attempt %d of %d begins when its queue lets it", s.Attempt, l.MaxRestarts)
	}
	return "Held back: no rank is to run"
}

func times(n int32) string {
	switch n {
	case 0:
		return "no restart"
	case 1:
		return "1 restart"
	default:
		return fmt.Sprintf("%d restarts", n)
	}
}

// Fallen is how many pods of all members failed or were taken away.
func (r Roll) Fallen() int32 {
	var n int32
	for _, e := range r {
		n += e.Seen.Fallen
	}
	return n
}

// Ending reports whether a member has its verdict and waits for its pods to go.
func (r Roll) Ending() bool {
	return slices.ContainsFunc(r, func(e Entry) bool { return e.Here && e.Seen.Ending })
}

// Spent reports whether a rank of a Job ended well.
func (r Roll) Spent() bool {
	return slices.ContainsFunc(r, func(e Entry) bool { return e.Here && e.Seen.Done > 0 })
}

// suspended reports whether somebody else than Rollcall holds a member back.
func (r Roll) suspended() bool {
	return slices.ContainsFunc(r, func(e Entry) bool {
		return e.Here && !e.Seen.Stopped && (e.Seen.Suspended || e.Seen.Size == 0)
	})
}

// queued reports whether a queue is to let a member go that Rollcall holds back.
func (r Roll) queued() bool {
	return slices.ContainsFunc(r, func(e Entry) bool { return e.Here && e.Seen.Stopped && e.Seen.Queued })
}

// Kept reports whether a user holds a member back; that a queue does is no such thing.
func (r Roll) Kept() bool {
	return slices.ContainsFunc(r, func(e Entry) bool {
		return e.Here && !e.Seen.Stopped && !e.Seen.Queued && (e.Seen.Suspended || e.Seen.Size == 0)
	})
}

// Halted reports whether all members are held back and have heard of it.
func (r Roll) Halted() bool {
	return r.all(func(e Entry) bool { return e.Here && e.Seen.Halted })
}
