package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/internal/inspect"
)

const (
	// followInterval is the maximum time between the start of a container and the request of its log.
	followInterval = 300 * time.Millisecond
	// reopenDelay is the time before a log is requested again after its connection ended.
	reopenDelay = time.Second
	// drainTimeout is the time without a new line after which the logs of a finished gang are
	// closed. If the gang's policy keeps pods running, their logs never end.
	drainTimeout = 5 * time.Second
	// maxConcurrentOpens is the maximum number of log requests that wait for a response. The API
	// server forwards each of them to a node. The number of open logs has no limit.
	maxConcurrentOpens = 16
)

// containerRun identifies one run of a container. A container that is restarted within its pod
// writes a new log.
type containerRun struct {
	podUID    types.UID
	container string
	restarts  int32
}

// logSource is the log of one run of a container.
type logSource struct {
	containerRun
	rank    int32
	podName string
	// multiContainer is true if the rank has several containers whose logs are printed.
	multiContainer bool
	// running is true if the container is running, so that its log is not complete.
	running bool
}

// newLogSource returns the log of a rank's container. It returns false if the container has not
// started. A container that waits for its restart still has the log of its previous run.
func newLogSource(rank inspect.Rank, container string) (logSource, bool) {
	status := rank.Object.Status
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		if c.Name != container {
			continue
		}
		source := logSource{
			containerRun: containerRun{podUID: rank.Object.UID, container: container, restarts: c.RestartCount},
			rank:         rank.Rank,
			podName:      rank.Pod,
			running:      c.State.Running != nil,
		}
		hasRun := source.running || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
		return source, hasRun
	}
	return logSource{}, false
}

// logFollower prints logs. It follows any number of them concurrently.
type logFollower struct {
	client    kubernetes.Interface
	namespace string
	options   corev1.PodLogOptions
	printer   *linePrinter

	// openLimiter has capacity maxConcurrentOpens.
	openLimiter chan struct{}
	wg          sync.WaitGroup
	// cancel ends all logs. Its cause is an error of the output.
	cancel context.CancelCauseFunc

	mu sync.Mutex
	// running has an entry for each run whose log was started. The value reports whether the
	// container was running when startNewLogs was last called.
	running map[containerRun]bool
}

// followUntil follows logs until watch returns. watch calls startNewLogs. Then followUntil prints the
// remaining lines of the started logs, and returns the error of watch.
func (f *logFollower) followUntil(ctx context.Context, watch func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.cancel = cancel
	err := watch(ctx)
	if errors.Is(err, inspect.ErrDeleted) {
		f.printer.printNote("the gang was deleted")
		err = nil
	}
	allEnded := make(chan struct{})
	go func() { f.wg.Wait(); close(allEnded) }()
	if err == nil {
		f.drainLogs(ctx, allEnded)
	}
	cancel(nil)
	<-allEnded
	return err
}

// drainLogs waits until all logs of a finished gang have ended, or until none of them has had a new
// line for drainTimeout. It waits longer if lines have been read that a slow output has not accepted.
func (f *logFollower) drainLogs(ctx context.Context, allEnded <-chan struct{}) {
	for reported := false; ; {
		before := f.printer.printedLines.Load()
		select {
		case <-allEnded:
			return
		case <-ctx.Done():
			return
		case <-time.After(drainTimeout):
		}
		switch {
		case f.printer.pendingLines.Load() > 0:
		case f.printer.printedLines.Load() == before:
			f.printer.printNote("the gang has finished; some of its pods are still running, "+
				"but their logs had no new lines for %s and are no longer followed", drainTimeout)
			return
		case !reported:
			f.printer.printNote("the gang has finished; some of its pods still write logs; press Ctrl-C to stop")
			reported = true
		}
	}
}

// startNewLogs starts to follow the logs that were not in an earlier call. The sources must be all
// current logs, because it also records which containers are running.
func (f *logFollower) startNewLogs(ctx context.Context, sources []logSource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for run := range f.running {
		f.running[run] = false
	}
	for _, source := range sources {
		_, started := f.running[source.containerRun]
		f.running[source.containerRun] = source.running
		if !started {
			f.wg.Go(func() { f.followLog(ctx, source) })
		}
	}
}

// isRunning reports whether a container was running when startNewLogs was last called.
func (f *logFollower) isRunning(run containerRun) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[run]
}

// followLog prints one log until its container terminates. It requests the log again if the
// connection ends earlier, for example because the node rotates the log file.
func (f *logFollower) followLog(ctx context.Context, source logSource) {
	var position logPosition
	reported := false
	for {
		err := f.streamLog(ctx, source, &position)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errOutput):
			f.cancel(err)
			return
		case apierrors.IsNotFound(err):
			return // the pod was deleted, so its log has ended
		case err != nil && (apierrors.IsForbidden(err) || !f.isRunning(source.containerRun)):
			f.printer.printNote("%v", err)
			return
		case !f.isRunning(source.containerRun):
			return
		case err != nil && !reported:
			f.printer.printNote("%v; retrying", err)
			reported = true
		}
		select {
		case <-time.After(reopenDelay):
		case <-ctx.Done():
			return
		}
	}
}

// streamLog requests one log and prints it from the given position. It advances the position.
func (f *logFollower) streamLog(ctx context.Context, source logSource, position *logPosition) error {
	options := f.options
	options.Container, options.Timestamps = source.container, true
	if !position.lastTime.IsZero() {
		options.TailLines, options.SinceSeconds = nil, nil
		options.SinceTime = &metav1.Time{Time: position.lastTime}
	}
	select {
	case f.openLimiter <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	log, err := f.client.CoreV1().Pods(f.namespace).GetLogs(source.podName, &options).Stream(ctx)
	<-f.openLimiter
	if err != nil {
		return fmt.Errorf("opening the log of rank %d (pod %s, container %s): %w",
			source.rank, source.podName, source.container, err)
	}
	defer log.Close()
	return f.printer.copyLog(f.printer.formatPrefix(source), log, position)
}
