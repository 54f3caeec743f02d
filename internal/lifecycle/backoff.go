package lifecycle

import "time"

// The back-off doubles with each restart, as the Job controller's back-off for pods does
// (kubernetes pkg/controller/job, DefaultJobPodFailureBackOff). Its maximum is half of that
// controller's maximum, because a waiting gang occupies more nodes than a pod.
const (
	initialBackoff = 10 * time.Second
	maxBackoff     = 5 * time.Minute
)

// Backoff returns how long a gang waits before its nth restart, counted from 1. The first restart has
// no delay, because most failures are caused by a node and not by the program.
func Backoff(n int32) time.Duration {
	if n <= 1 {
		return 0
	}
	d := initialBackoff
	for range n - 2 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// backoff returns the back-off of a restart that was decided for the first failure. Disruptions have a
// back-off of their own, because a gang on spot nodes may be disrupted often, and still make progress.
func (s State) backoff() time.Duration {
	if s.FirstFailure.IsDisruption() {
		return Backoff(s.DisruptionStreak)
	}
	return Backoff(s.Restarts)
}

// endStreak ends the streak of disruptions if the attempt ran for the maximum back-off.
func (s State) endStreak(now time.Time) State {
	if s.ranForMaxBackoff(now) {
		s.DisruptionStreak = 0
	}
	return s
}

// ranForMaxBackoff reports whether all ranks of the attempt were ready for at least the maximum back-off.
// If a rank is not ready any more, the time at which all were is not known, and the start of the attempt
// counts.
func (s State) ranForMaxBackoff(now time.Time) bool {
	since := s.LastTransitionTime
	if s.Phase != Running {
		since = s.AttemptStartTime
	}
	return s.wereAllReady() && now.Sub(since) >= maxBackoff
}
