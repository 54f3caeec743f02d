package controller

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

const (
	// recordDelay is how long the completed ranks must differ from the status before they are written. Each
	// further write waits twice as long, so the number of writes grows with the logarithm of the runtime.
	recordDelay = 30 * time.Second
	// maxRecordBytes limits the text of the completed ranks. A longer text is not recorded.
	maxRecordBytes = 4 * 1024
)

// completedRanks contains the ranks that this process observed to complete in an attempt of a gang, and when
// they are recorded in the status.
type completedRanks struct {
	attemptStartTime time.Time
	ranks            sets.Set[int32]
	// dueTime is when the ranks are recorded; zero if they are. delay is the delay of the last record.
	dueTime time.Time
	delay   time.Duration
}

// known returns the ranks that this process observed to complete, or that the status records.
func (c *completedRanks) known(state lifecycle.State) sets.Set[int32] {
	out := sets.New(parseIndexes(state.CompletedRanks, gang.MaxPods)...)
	if c.attemptStartTime.Equal(state.AttemptStartTime) {
		out = out.Union(c.ranks)
	}
	return out
}

// record replaces the observed ranks, and returns them as a text; empty if the text is too long.
func (c *completedRanks) record(state lifecycle.State, ranks sets.Set[int32]) string {
	c.attemptStartTime, c.ranks = state.AttemptStartTime, nil
	if isActive(state.Phase) {
		c.ranks = ranks
	}
	text := formatIndexes(sets.List(ranks))
	if len(text) > maxRecordBytes {
		return ""
	}
	return text
}

// delayRecord returns the next state with the completed ranks that were written last, unless the status is
// written anyway or the ranks have differed for long enough. It schedules the pass that writes them.
func (r *Reconciler) delayRecord(g *observedGang, last, next lifecycle.State) lifecycle.State {
	c, now := &r.sessions.forRequest(g.pass.request).completed, r.Clock.Now()
	isNew := next.CompletedRanks != last.CompletedRanks &&
		(last.CompletedRanks != "" || next.CompletedRanks != lifecycle.NoRanks)
	switch {
	case next.Phase != last.Phase || !isActive(next.Phase):
		c.dueTime = time.Time{}
		return next
	case !isNew:
		c.dueTime = time.Time{}
	case c.dueTime.IsZero():
		c.delay = max(recordDelay, 2*c.delay)
		c.dueTime = now.Add(c.delay)
		g.pass.requeueAfter(c.delay)
	case now.Before(c.dueTime):
		g.pass.requeueAfter(c.dueTime.Sub(now))
	default:
		return next
	}
	next.CompletedRanks = last.CompletedRanks
	return next
}

// findCompletedRanks returns the ranks of a Job that completed in the current attempt, and the number of
// ranks that the Job counts as completed and that are lost. A rank without a pod is lost unless it is known
// to have completed: its pod was deleted before Rollcall observed it, and its program exited with code 0.
func (g *observedGang) findCompletedRanks(
	m member, pods []corev1.Pod, c failure.Context,
) (completed []int32, lost int32) {
	if m.Job == nil || m.Job.Status.CompletedIndexes == "" || m.observeStatus().Complete {
		return nil, 0
	}
	hasPod, succeeded := map[int32]bool{}, map[int32]bool{}
	for i := range pods {
		pod, index := &pods[i], gang.PodIndex(&pods[i])
		hasPod[index] = hasPod[index] || !c.IsFromEarlierAttempt(pod)
		succeeded[index] = succeeded[index] || c.HasSucceeded(pod)
	}
	for _, index := range parseIndexes(m.Job.Status.CompletedIndexes, m.Ranks()) {
		rank := m.rankOffset() + index
		switch {
		case succeeded[index], !hasPod[index] && g.knownCompleted.Has(rank):
			completed = append(completed, rank)
		case !hasPod[index]:
			lost++
		}
	}
	return completed, lost
}

// formatIndexes returns ascending indexes in the format of [parseIndexes], or [lifecycle.NoRanks].
func formatIndexes(indexes []int32) string {
	var out []string
	for len(indexes) > 0 {
		n := 1
		for n < len(indexes) && indexes[n] == indexes[0]+int32(n) {
			n++
		}
		interval := fmt.Sprint(indexes[0])
		if n > 1 {
			interval += fmt.Sprintf("-%d", indexes[n-1])
		}
		out, indexes = append(out, interval), indexes[n:]
	}
	if len(out) == 0 {
		return lifecycle.NoRanks
	}
	return strings.Join(out, ",")
}

// parseIndexes returns the indexes below size in the format of completedIndexes, such as "0,3-5".
func parseIndexes(text string, size int32) []int32 {
	var out []int32
	for interval := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(interval, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.ParseInt(first, 10, 32)
		to, errTo := strconv.ParseInt(last, 10, 32)
		if errFrom != nil || errTo != nil {
			continue
		}
		for i := from; i <= min(to, int64(size)-1); i++ {
			out = append(out, int32(i))
		}
	}
	return out
}
