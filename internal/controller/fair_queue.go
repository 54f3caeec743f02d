package controller

import (
	"k8s.io/client-go/util/workqueue"
)

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
