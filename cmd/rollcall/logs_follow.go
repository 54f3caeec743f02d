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

	"rollcall.training/roster"
)

const (
	// followPace is how soon after a container has started its log is opened, at most.
	followPace = 300 * time.Millisecond
	// reopenAfter is how long to wait before a log that broke off is opened again.
	reopenAfter = time.Second
	// lastLines is how long an ended gang's logs may be silent before they are left: those
	// of pods that its policy leaves running never end.
	lastLines = 5 * time.Second
	// opening is how many logs are opened at once. Each is a request that the API server
	// passes on to a node; as many may be open as there are ranks.
	opening = 16
)

// containerRun names one run of a container: a container that is started anew within its pod
// writes another log.
type containerRun struct {
	pod       types.UID
	container string
	restarts  int32
}

// source is a log.
type source struct {
	containerRun
	rank int32
	name string // of the pod
	// beside is true when the rank has other containers that train.
	beside bool
	// running is false when the container has ended, and its log with it.
	running bool
}

// sourceOf is the log of a rank's container; false when it has not started.
func sourceOf(r roster.Rank, container string) (source, bool) {
	statuses := slices.Concat(r.Object.Status.InitContainerStatuses, r.Object.Status.ContainerStatuses)
	for _, c := range statuses {
		if c.Name != container {
			continue
		}
		s := source{rank: r.Rank, name: r.Pod, running: c.State.Running != nil,
			containerRun: containerRun{r.Object.UID, container, c.RestartCount}}
		// One that waits to be started anew still has the log of its last run.
		return s, s.running || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	}
	return source{}, false
}

// follower prints logs as they are written.
type follower struct {
	client    kubernetes.Interface
	namespace string
	request   corev1.PodLogOptions
	printer   *printer

	slots chan struct{}
	wg    sync.WaitGroup

	mu sync.Mutex
	// running are the runs that have been begun, and whether they still went on at the
	// last look.
	running map[containerRun]bool
	// stop ends everything, with an error of the output.
	stop context.CancelCauseFunc
}

func newFollower(client kubernetes.Interface, namespace string, request corev1.PodLogOptions, p *printer) *follower {
	return &follower{client: client, namespace: namespace, request: request, printer: p,
		slots: make(chan struct{}, opening), running: map[containerRun]bool{}, stop: func(error) {}}
}

// until follows until watch returns, and then prints what is still to come.
func (f *follower) until(ctx context.Context, watch func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f.stop = stop
	err := watch(ctx)
	if errors.Is(err, roster.ErrGone) {
		f.printer.note("the gang was deleted")
		err = nil
	}
	rest := make(chan struct{})
	go func() { f.wg.Wait(); close(rest) }()
	if err == nil {
		f.drain(ctx, rest)
	}
	stop(nil)
	<-rest
	return err
}

// drain waits until the logs of an ended gang have ended, or have nothing to say. A log
// whose lines wait for a slow reader has.
func (f *follower) drain(ctx context.Context, rest <-chan struct{}) {
	for said := false; ; {
		before := f.printer.printed.Load()
		timer := time.NewTimer(lastLines)
		select {
		case <-rest:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		switch {
		case f.printer.waiting.Load() > 0:
		case f.printer.printed.Load() == before:
			f.printer.note("the gang has ended, and some of its pods still run and were silent for %s: their logs are not followed any further", lastLines)
			return
		case !said:
			f.printer.note("the gang has ended, and some of its pods go on writing: interrupt to leave them")
			said = true
		}
	}
}

// look begins with the logs that are new since the last look.
func (f *follower) look(ctx context.Context, sources []source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for run := range f.running {
		f.running[run] = false
	}
	for _, s := range sources {
		_, begun := f.running[s.containerRun]
		f.running[s.containerRun] = s.running
		if !begun {
			f.wg.Go(func() { f.follow(ctx, s) })
		}
	}
}

// goesOn reports whether a container's run went on at the last look.
func (f *follower) goesOn(run containerRun) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[run]
}

// follow prints one log until its container's run is over. A log that breaks off
// before, with a connection or when the node rotates its files, is opened again.
func (f *follower) follow(ctx context.Context, s source) {
	var at place
	told := false
	for {
		err := f.copy(ctx, s, &at)
		var output *outputError
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &output):
			f.stop(err)
			return
		case apierrors.IsNotFound(err):
			return // the pod is gone, and has said all
		case err != nil && (apierrors.IsForbidden(err) || !f.goesOn(s.containerRun)):
			f.printer.note("%v", err)
			return
		case !f.goesOn(s.containerRun):
			return
		case err != nil && !told:
			f.printer.note("%v; trying on", err)
			told = true
		}
		timer := time.NewTimer(reopenAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// once prints what is there of one log.
func (f *follower) once(ctx context.Context, s source) error {
	var at place
	return f.copy(ctx, s, &at)
}

// copy opens one log and prints it from a place on.
func (f *follower) copy(ctx context.Context, s source, at *place) error {
	request := f.request
	request.Container, request.Timestamps = s.container, true
	if !at.at.IsZero() {
		request.TailLines, request.SinceSeconds = nil, nil
		request.SinceTime = &metav1.Time{Time: at.at}
	}
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	log, err := f.client.CoreV1().Pods(f.namespace).GetLogs(s.name, &request).Stream(ctx)
	<-f.slots
	if err != nil {
		return fmt.Errorf("opening the log of rank %d (pod %s, container %s): %w", s.rank, s.name, s.container, err)
	}
	defer log.Close()
	return f.printer.copyLog(f.printer.prefix(s), log, at)
}
