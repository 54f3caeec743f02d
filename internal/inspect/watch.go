package inspect

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
	appsinformers "k8s.io/client-go/informers/apps/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// ErrDeleted is returned by [Reader.Watch] if the gang is deleted.
var ErrDeleted = errors.New("the gang was deleted")

// Watch calls handle with the gang of a name, and again after each change of its workloads or pods. An empty name
// means all gangs as [Reader.ListGangs] returns them, and changes of their workloads. Two calls are at least interval
// apart, so several changes can result in one call.
//
// Watch returns nil after it has called handle with a terminal phase of the gang of the name. It returns [ErrDeleted]
// if that gang is deleted, the error of handle, or the cause of the end of ctx. Watch does not observe Events, because
// they report nothing that the workloads and pods do not show. To read Events, use [Reader.AddDetails].
func (r Reader) Watch(ctx context.Context, name string, interval time.Duration, handle func([]Gang) error) error {
	podGang, subject := "", "gangs"
	if name == "" {
		// A list request returns a clearer error than a watch, for example if the API server does not answer.
		if _, err := r.ListGangs(ctx); err != nil {
			return err
		}
	} else {
		g, err := r.GetGang(ctx, name)
		if err != nil {
			return err
		}
		if len(g.Members) == 1 {
			name = g.Members[0].Name // excludes later runs of a CronJob, which have the same gang name
		}
		podGang, subject = g.Name, "gang "+name
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := r.startWatch(ctx, cancel, podGang)
	for isOpen := cache.WaitForCacheSync(ctx.Done(), w.synced...); isOpen; {
		gangs := w.readGangs(name)
		if name != "" && len(gangs) == 0 {
			return fmt.Errorf("watching %s: %w", subject, ErrDeleted)
		}
		if err := handle(gangs); err != nil {
			return err
		}
		if name != "" && gangs[0].Phase.Terminal() {
			return nil
		}
		isOpen = w.waitForChange(ctx, interval, r.repeatAfter(gangs))
	}
	return fmt.Errorf("watching %s: %w", subject, context.Cause(ctx))
}

// repeatAfter returns a channel with a value when a gang whose log is read must be handled again. It is nil for others.
func (r Reader) repeatAfter(gangs []Gang) <-chan time.Time {
	if r.LogInterval == 0 || len(gangs) != 1 {
		return nil
	}
	if _, ok := gangs[0].findProgressLog(); !ok && r.LogRank == nil {
		return nil
	}
	return time.After(r.LogInterval)
}

// gangWatch caches the workloads of a namespace and the pods of one gang. The informer of pods is nil without a gang.
type gangWatch struct {
	engine                   *injectors.Engine
	jobs, statefulSets, pods cache.SharedIndexInformer
	synced                   []cache.InformerSynced // of all informers
	// changed has capacity 1. It holds a token if a cache has changed since the last waitForChange.
	changed chan struct{}
}

// waitForChange waits for the interval, and then until a cache has changed or the channel repeat has a value. It
// returns false if ctx ends first.
func (w *gangWatch) waitForChange(ctx context.Context, interval time.Duration, repeat <-chan time.Time) bool {
	select {
	case <-time.After(interval):
	case <-ctx.Done():
		return false
	}
	select {
	case <-w.changed:
	case <-repeat:
	case <-ctx.Done():
		return false
	}
	return true
}

// startWatch starts the informers. They run until ctx ends. Without the name of a gang, they do not include pods.
func (r Reader) startWatch(ctx context.Context, cancel context.CancelCauseFunc, gangName string) *gangWatch {
	selectLabel := func(selector string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.LabelSelector = selector }
	}
	labeled := selectLabel(gang.LabelFramework)
	w := &gangWatch{
		engine:       r.Engine,
		changed:      make(chan struct{}, 1),
		jobs:         batchinformers.NewFilteredJobInformer(r.Client, r.Namespace, 0, cache.Indexers{}, labeled),
		statefulSets: appsinformers.NewFilteredStatefulSetInformer(r.Client, r.Namespace, 0, cache.Indexers{}, labeled),
	}
	w.startInformer(ctx, cancel, w.jobs)
	w.startInformer(ctx, cancel, w.statefulSets)
	if gangName != "" {
		w.pods = coreinformers.NewFilteredPodInformer(
			r.Client, r.Namespace, 0, cache.Indexers{}, selectLabel(podSelector(gangName)))
		w.startInformer(ctx, cancel, w.pods)
	}
	return w
}

// startInformer runs an informer until ctx ends. It cancels ctx if the API server denies the watch.
// An informer would retry such a watch indefinitely.
func (w *gangWatch) startInformer(
	ctx context.Context, cancel context.CancelCauseFunc, informer cache.SharedIndexInformer,
) {
	signalChange := func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	// Neither call can fail on an informer that has not started.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signalChange() },
		UpdateFunc: func(any, any) { signalChange() },
		DeleteFunc: func(any) { signalChange() },
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			cancel(err)
		}
	})
	w.synced = append(w.synced, informer.HasSynced)
	go informer.RunWithContext(ctx)
}

// listWorkloads returns the workloads in the caches.
func (w *gangWatch) listWorkloads() []gang.Workload {
	var workloads []gang.Workload
	for _, object := range w.jobs.GetStore().List() {
		workloads = append(workloads, gang.Workload{Job: object.(*batchv1.Job)})
	}
	for _, object := range w.statefulSets.GetStore().List() {
		workloads = append(workloads, gang.Workload{StatefulSet: object.(*appsv1.StatefulSet)})
	}
	return workloads
}

// readGangs returns the gang of a name with its ranks, or nil if it does not exist. It returns all gangs if the name is
// empty.
func (w *gangWatch) readGangs(name string) []Gang {
	groups := listGroups(w.engine, w.listWorkloads())
	if name == "" {
		return buildGangs(groups)
	}
	group, ok := selectGang(groups, name)
	if !ok {
		return nil
	}
	var pods []corev1.Pod
	for _, object := range w.pods.GetStore().List() {
		pods = append(pods, *object.(*corev1.Pod))
	}
	return []Gang{group.buildGangWithRanks(pods)}
}
