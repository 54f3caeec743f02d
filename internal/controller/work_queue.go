package controller

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// The delay between two passes that events of pods cause is proportional to the number of pods, so that the
// cost of a start or a termination is, too. The maximum is not noticeable for a gang of 4,000 ranks, whose pods
// take far longer to start.
const (
	delayPerPod      = 500 * time.Microsecond
	maxPodEventDelay = 2 * time.Second
)

// recordPass records a pass of a gang.
func (s *sessions) recordPass(req Request, pods int, now time.Time) {
	session := s.forRequest(req)
	s.mu.Lock()
	defer s.mu.Unlock()
	session.lastPassTime, session.lastPodCount = now, pods
}

// remainingDelay returns how long the next pass that an event of a pod causes must wait; 0 if it may start now. While a
// large gang starts or terminates, each of its pods changes several times, and each pass reads all of its pods. A
// pass for each event would cost the square of the size, while the control plane is busiest. The first event after
// a quiet period causes a pass immediately.
func (s *sessions) remainingDelay(req Request, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.byRequest[req]
	if session == nil {
		return 0
	}
	delay := min(time.Duration(session.lastPodCount)*delayPerPod, maxPodEventDelay)
	return max(0, session.lastPassTime.Add(delay).Sub(now))
}

// PodEventDelay returns how long the pass that an event of a pod causes must wait; 0 if it may start now.
func (r *Reconciler) PodEventDelay(req Request) time.Duration {
	return r.sessions.remainingDelay(req, r.Clock.Now())
}

// podEventHandler returns the event handler for pods.
func (r *Reconciler) podEventHandler() handler.TypedEventHandler[client.Object, Request] {
	type queue = workqueue.TypedRateLimitingInterface[Request]
	enqueue := func(ctx context.Context, o client.Object, q queue) {
		for _, req := range r.RequestsFor(ctx, o) {
			if delay := r.PodEventDelay(req); delay > 0 {
				q.AddAfter(req, delay) // the queue merges requests that are added during the delay
			} else {
				q.Add(req)
			}
		}
	}
	return handler.TypedFuncs[client.Object, Request]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q) },
	}
}

// fairQueue is the order in which waiting gangs are reconciled. Namespaces take turns, and the gangs of a
// namespace are in the order of their arrival. A request therefore waits for at most one request of each
// other namespace, however many gangs of another team restart all the time. The work queue calls the
// methods while it holds its lock.
type fairQueue struct {
	// turns contains each namespace with waiting requests once, the next namespace first.
	turns   workqueue.Queue[string]
	waiting map[string]workqueue.Queue[Request]
	length  int
}

var _ workqueue.Queue[Request] = (*fairQueue)(nil)

func newFairQueue() *fairQueue {
	return &fairQueue{turns: workqueue.DefaultQueue[string](), waiting: map[string]workqueue.Queue[Request]{}}
}

// newRequestQueue returns the work queue of the controller.
func newRequestQueue(
	name string, limiter workqueue.TypedRateLimiter[Request],
) workqueue.TypedRateLimitingInterface[Request] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Request]{Name: name, Queue: newFairQueue()})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[Request]{Name: name, Queue: queue})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[Request]{Name: name, DelayingQueue: delaying})
}

// Touch does nothing: a request that is added again keeps its place.
func (q *fairQueue) Touch(Request) {}

// Push adds a request after the other requests of its namespace.
func (q *fairQueue) Push(req Request) {
	requests, ok := q.waiting[req.Namespace]
	if !ok {
		requests = workqueue.DefaultQueue[Request]()
		q.waiting[req.Namespace] = requests
		q.turns.Push(req.Namespace)
	}
	requests.Push(req)
	q.length++
}

// Len returns the number of waiting requests.
func (q *fairQueue) Len() int { return q.length }

// Pop returns the first request of the next namespace, which then has the last turn. It must not be
// called without a waiting request.
func (q *fairQueue) Pop() Request {
	namespace := q.turns.Pop()
	requests := q.waiting[namespace]
	req := requests.Pop()
	q.length--
	if requests.Len() > 0 {
		q.turns.Push(namespace)
	} else {
		delete(q.waiting, namespace)
	}
	return req
}
