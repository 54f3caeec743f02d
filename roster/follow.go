package roster

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"rollcall.training/gang"
)

// ErrGone says that a gang that was followed is no more.
var ErrGone = errors.New("the gang was deleted")

// Follow hands out the gang whenever something moved, and first as it stands, but not
// more often than once every pace. It ends without error after the gang has been handed
// out in a phase in which it stays, with [ErrGone] when it is deleted, and with the
// error of each. Events, which tell nothing that does not show otherwise, are not
// watched; [Reader.Events] reads them.
func (r Reader) Follow(ctx context.Context, name string, pace time.Duration, each func(Gang) error) error {
	g, err := r.gang(ctx, name) // the plain requests say best what is wrong with them
	if err != nil {
		return err
	}
	if len(g.Members) == 1 {
		name = g.Members[0].Name // and not a later run under the same gang's name
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := r.watch(ctx, stop, g.Name)
	if !cache.WaitForCacheSync(ctx.Done(), w.jobs.HasSynced, w.sets.HasSynced, w.pods.HasSynced) {
		return fmt.Errorf("following the gang %s: %w", name, context.Cause(ctx))
	}
	for {
		g, ok := w.look(name)
		if !ok {
			return fmt.Errorf("following the gang %s: %w", name, ErrGone)
		}
		if err := each(g); err != nil {
			return err
		}
		if g.Phase.Terminal() {
			return nil
		}
		if !w.wait(ctx, pace) {
			return fmt.Errorf("following the gang %s: %w", name, context.Cause(ctx))
		}
	}
}

// watching keeps what a gang consists of up to date.
type watching struct {
	jobs, sets, pods cache.SharedIndexInformer
	// moved holds one token when something moved since the last look.
	moved chan struct{}
}

// wait lets the pace pass, and then waits until something has moved. It is false when
// the watching is over.
func (w *watching) wait(ctx context.Context, pace time.Duration) bool {
	timer := time.NewTimer(pace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	select {
	case <-w.moved:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r Reader) watch(ctx context.Context, stop context.CancelCauseFunc, name string) *watching {
	w := &watching{moved: make(chan struct{}, 1)}
	jobs, sets, pods := r.Client.BatchV1().Jobs(r.Namespace), r.Client.AppsV1().StatefulSets(r.Namespace), r.Client.CoreV1().Pods(r.Namespace)
	inform := func(kind runtime.Object, selector string, list lister, follow watcher) cache.SharedIndexInformer {
		informer := r.informer(kind, selector, list, follow)
		w.start(ctx, stop, informer)
		return informer
	}
	w.jobs = inform(&batchv1.Job{}, gang.LabelFramework,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return jobs.List(ctx, o) }, jobs.Watch)
	w.sets = inform(&appsv1.StatefulSet{}, gang.LabelFramework,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return sets.List(ctx, o) }, sets.Watch)
	w.pods = inform(&corev1.Pod{}, podsOf(name),
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) }, pods.Watch)
	return w
}

type (
	lister  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watcher func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

// informer is one watch, of what a selector picks.
func (r Reader) informer(kind runtime.Object, selector string, list lister, follow watcher) cache.SharedIndexInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return follow(ctx, o)
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, r.Client), kind, 0, cache.Indexers{})
}

// start runs a watch until the end, which it brings about itself when it is refused:
// that does not get better by itself.
func (w *watching) start(ctx context.Context, stop context.CancelCauseFunc, informer cache.SharedIndexInformer) {
	move := func() {
		select {
		case w.moved <- struct{}{}:
		default:
		}
	}
	// Neither can fail on an informer that has not started.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { move() },
		UpdateFunc: func(any, any) { move() },
		DeleteFunc: func(any) { move() },
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			stop(err)
		}
	})
	go informer.RunWithContext(ctx)
}

// look puts together what the watches hold. It is false when the gang is not there.
func (w *watching) look(name string) (Gang, bool) {
	var found []gang.Workload
	for _, o := range w.jobs.GetStore().List() {
		found = append(found, gang.Workload{Job: o.(*batchv1.Job)})
	}
	for _, o := range w.sets.GetStore().List() {
		found = append(found, gang.Workload{StatefulSet: o.(*appsv1.StatefulSet)})
	}
	p, notes, ok := find(parties(engine, found), name)
	if !ok {
		return Gang{}, false
	}
	var pods []corev1.Pod
	for _, o := range w.pods.GetStore().List() {
		pods = append(pods, *o.(*corev1.Pod))
	}
	g := p.gang()
	g.withRanks(pods)
	g.Notes = notes
	return g, true
}
