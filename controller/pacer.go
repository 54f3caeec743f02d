package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// pacer spaces the looks at a gang for which its pods ask. When a large gang starts or
// stops, each of its pods moves several times, and each look reads all of them: looks
// for each would cost the square of the size, at the very moment at which the whole
// control plane has most to do. What happens after a quiet time is looked at at once.
// The zero value is ready for use.
type pacer struct {
	mu   sync.Mutex
	last map[Request]glance
}

// glance is when a gang was looked at last, and how many pods it had.
type glance struct {
	at   time.Time
	pods int
}

// Between two looks for the sake of pods there is a time for each pod, up to a bound
// that nobody notices in the life of a gang so large.
const (
	perPod    = 500 * time.Microsecond
	mostPause = 200 * time.Millisecond
)

// looked notes a look.
func (p *pacer) looked(req Request, pods int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[Request]glance{}
	}
	p.last[req] = glance{now, pods}
}

// pause is how long to wait with the next look.
func (p *pacer) pause(req Request, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, ok := p.last[req]
	if !ok {
		return 0
	}
	return max(0, g.at.Add(min(time.Duration(g.pods)*perPod, mostPause)).Sub(now))
}

// forget drops what is kept of a gang that is gone.
func (p *pacer) forget(req Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, req)
}

// podEvents asks for looks when pods move.
func (r *Reconciler) podEvents() handler.TypedEventHandler[client.Object, Request] {
	ask := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[Request]) {
		for _, req := range r.requestsOfPod(ctx, o) {
			if pause := r.pacer.pause(req, r.Clock.Now()); pause > 0 {
				q.AddAfter(req, pause) // those meanwhile are one with it
			} else {
				q.Add(req)
			}
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[Request]
	return handler.TypedFuncs[client.Object, Request]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { ask(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { ask(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { ask(ctx, e.Object, q) },
	}
}
