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
)

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

// rankLog is what the reconciler remembers of the log of rank 0, in one run of its container with one pattern.
type rankLog struct {
	// run identifies the run and the pattern.
	run string
	// matches is the number of lines that matched the pattern, and lastLine the time of the last one by the clock of the
	// node.
	matches  int
	lastLine time.Time
	// stopped is true after a line with the group stop, until another line matches. faulted is true after a line with
	// the group fault.
	stopped, faulted bool
	// readTime is the start of the last read that succeeded, and matchTime that of the last read that found a line that
	// was not read before. So the clock of the node does not matter.
	readTime, matchTime time.Time
	// nextReadTime is when the log is read again. result receives the result of a read that runs; nil if none runs.
	nextReadTime time.Time
	result       chan rankLogResult
}

type rankLogResult struct {
	startTime time.Time
	progress  progress.Progress
	// truncated is true if the log has more lines since the last read than are read.
	truncated bool
	err       error
}

// rankLogSource is the log of rank 0.
type rankLogSource struct {
	namespace, pod, container, run string
	rules                          gang.StallRules
}

// findRankLog returns the log of rank 0; nil if the gang has no pattern, or if rank 0 does not run.
func findRankLog(workloads []lifecycle.WorkloadEvidence) *rankLogSource {
	for _, w := range workloads {
		rules := w.Gang.StallRules // of the workload of rank 0, because others have no pattern
		if rules.Pattern == nil || len(w.Gang.Containers) == 0 {
			continue
		}
		pod, container := lifecycle.NewestPods(w.Pods, 1)[0], w.Gang.Containers[0].Name
		if pod == nil || !lifecycle.IsContainerRunning(pod, container) {
			return nil
		}
		restarts := int32(0)
		for _, c := range pod.Status.ContainerStatuses {
			if c.Name == container {
				restarts = c.RestartCount
			}
		}
		return &rankLogSource{
			namespace: pod.Namespace, pod: pod.Name, container: container,
			run: fmt.Sprintf("%s/%s/%d/%s", pod.UID, container, restarts, rules.Pattern), rules: rules,
		}
	}
	return nil
}

// observeRankLog returns what the log of rank 0 of a running gang shows, and starts to read the log if that is due. A
// log that cannot be read shows what it showed before.
func (r *Reconciler) observeRankLog(
	ctx context.Context, g *observedGang, state lifecycle.State, workloads []lifecycle.WorkloadEvidence,
) lifecycle.RankLog {
	if r.rankLogs == nil || state.Phase != lifecycle.Running {
		return lifecycle.RankLog{}
	}
	source := findRankLog(workloads)
	s := g.pass.session
	if source == nil || s.memory.HasCompleted(state, 0) { // its kubelet runs it again
		return lifecycle.RankLog{}
	}
	l := &s.rankLog
	if l.run != source.run {
		*l = rankLog{run: source.run}
	}
	err := l.receive()
	if err != nil && s.recordReport("rank log "+source.run+string(apierrors.ReasonForError(err))) {
		log.FromContext(ctx).Error(err, "Failed to read the log of rank 0", "pod", source.pod)
	}
	now := r.Clock.Now()
	if l.result == nil && !now.Before(l.nextReadTime) && r.rankLogs.start(ctx, source, l, now) {
		l.nextReadTime = now.Add(logReadInterval)
	}
	g.pass.requeueAfter(max(logResultDelay, l.nextReadTime.Sub(now)))
	if l.result != nil {
		g.pass.requeueAfter(logResultDelay)
	}
	return lifecycle.RankLog{
		Matches: l.matches, Silence: l.readTime.Sub(l.matchTime), Stopped: l.stopped, Faulted: l.faulted, Rules: source.rules,
	}
}

// start starts to read a log. It returns false if too many reads run.
func (r *rankLogReads) start(ctx context.Context, source *rankLogSource, l *rankLog, now time.Time) bool {
	select {
	case r.slots <- struct{}{}:
	default:
		return false
	}
	o := &corev1.PodLogOptions{
		Container: source.container, Timestamps: true, LimitBytes: ptr.To[int64](progress.MaxLogBytes),
	}
	if !l.readTime.IsZero() { // the node subtracts it from the time at which it gets the request
		o.SinceSeconds = ptr.To(int64(math.Ceil((now.Sub(l.readTime) + logReadTimeout).Seconds())))
	}
	result, after := make(chan rankLogResult, 1), l.lastLine
	l.result = result
	go func() {
		defer func() { <-r.slots }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logReadTimeout) // the pass may end before
		defer cancel()
		text, err := r.read(ctx, source.namespace, source.pod, o)
		result <- rankLogResult{
			startTime: now, progress: source.rules.Pattern.Read(text, after),
			truncated: len(text) >= progress.MaxLogBytes, err: err,
		}
	}()
	return true
}

// receive adds the result of a read that has finished. It returns the error of the read. Lines that were not read may
// match, so a log that is truncated shows progress.
func (l *rankLog) receive() error {
	var result rankLogResult
	select {
	case result = <-l.result:
		l.result = nil
	default:
		return nil
	}
	if result.err != nil {
		return result.err
	}
	l.readTime = result.startTime
	l.faulted = l.faulted || result.progress.Faulted
	l.stopped = result.progress.Stopped || l.stopped && result.progress.Matches == 0
	if result.progress.Matches > 0 {
		l.matches += result.progress.Matches
		l.lastLine = result.progress.LastTime
	}
	if result.progress.Matches > 0 || result.truncated {
		l.matchTime = l.readTime
	}
	return nil
}
