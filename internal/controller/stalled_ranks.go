package controller

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/progress"
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

const (
	// logReadInterval is the time between two reads of a log. Reads that run at the same time are limited by number, so
	// that logs of unreachable nodes and patterns that take long delay only other reads.
	logReadInterval    = time.Minute
	logReadTimeout     = 10 * time.Second
	maxConcurrentReads = 8
	// logResultDelay is the delay before the pass that uses the result of a read, or repeats a read that was not possible.
	logResultDelay = 2 * time.Second
)

// LogReader reads the log of a container, up to the limit of the options. It is safe for concurrent use.
type LogReader func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (string, error)

// newLogReader returns a reader of the logs of a cluster.
func newLogReader(config *rest.Config) (LogReader, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for logs: %w", err)
	}
	return func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (string, error) {
		stream, err := client.CoreV1().Pods(namespace).GetLogs(pod, o).Stream(ctx)
		if err != nil {
			return "", fmt.Errorf("opening the log of %s: %w", pod, err)
		}
		defer stream.Close()
		text, err := io.ReadAll(io.LimitReader(stream, *o.LimitBytes)) // whatever the node sends
		if err != nil {
			return "", fmt.Errorf("reading the log of %s: %w", pod, err)
		}
		return string(text), nil
	}, nil
}

// rankLogReads reads logs outside of passes, which must not wait for a node. It is nil in a cluster in which Rollcall
// reads no logs.
type rankLogReads struct {
	read LogReader
	// slots has a value for each read that runs.
	slots chan struct{}
}

func newRankLogReads(read LogReader) *rankLogReads {
	return &rankLogReads{read: read, slots: make(chan struct{}, maxConcurrentReads)}
}

// rankLog is what the log of rank 0 showed, and the read that runs.
type rankLog struct {
	lifecycle.RankLog
	// nextReadTime is when the log is read again. result receives the result of a read that runs; nil if none runs.
	nextReadTime time.Time
	result       chan rankLogResult
}

type rankLogResult struct {
	startTime time.Time
	progress  progress.Progress
	// isTruncated is true if the log has more lines since the last read than are read.
	isTruncated bool
	err         error
}

// observeRankLog returns what the log of rank 0 of a running gang shows, and starts to read the log if that is due. A
// log that cannot be read shows what it showed before.
func (r *Reconciler) observeRankLog(
	ctx context.Context, g *observedGang, state lifecycle.State, workloads []lifecycle.WorkloadEvidence,
) lifecycle.RankLog {
	if r.rankLogs == nil {
		return lifecycle.RankLog{}
	}
	s := g.pass.session
	source := state.FindRankLog(workloads, &s.memory)
	if source == nil {
		return lifecycle.RankLog{}
	}
	l := &s.rankLog
	if l.Source.Run != source.Run {
		*l = rankLog{}
	}
	l.Source = *source
	select {
	case result := <-l.result:
		l.result = nil
		if result.err == nil {
			l.Add(result.progress, result.startTime, result.isTruncated)
		} else if s.recordReport("rank log " + source.Run + string(apierrors.ReasonForError(result.err))) {
			log.FromContext(ctx).Error(result.err, "Failed to read the log of rank 0", "pod", source.Pod)
		}
	default:
	}
	now := r.Clock.Now()
	if l.result == nil && !now.Before(l.nextReadTime) && r.rankLogs.start(ctx, l, now) {
		l.nextReadTime = now.Add(logReadInterval)
	}
	g.pass.requeueAfter(max(logResultDelay, l.nextReadTime.Sub(now)))
	if l.result != nil {
		g.pass.requeueAfter(logResultDelay)
	}
	return l.RankLog
}

// start starts to read a log. It returns false if too many reads run.
func (r *rankLogReads) start(ctx context.Context, l *rankLog, now time.Time) bool {
	select {
	case r.slots <- struct{}{}:
	default:
		return false
	}
	o := &corev1.PodLogOptions{
		Container: l.Source.Container, Timestamps: true, LimitBytes: ptr.To[int64](progress.MaxLogBytes),
	}
	if !l.ReadTime.IsZero() { // the node subtracts it from the time at which it gets the request
		o.SinceSeconds = ptr.To(int64(math.Ceil((now.Sub(l.ReadTime) + logReadTimeout).Seconds())))
	}
	result, source, after := make(chan rankLogResult, 1), l.Source, l.LastLine
	l.result = result
	go func() {
		defer func() { <-r.slots }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logReadTimeout) // the pass may end before
		defer cancel()
		text, err := r.read(ctx, source.Namespace, source.Pod, o)
		result <- rankLogResult{now, source.Rules.Pattern.Read(text, after), len(text) >= progress.MaxLogBytes, err}
	}()
	return true
}
