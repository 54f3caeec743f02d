package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// FieldOwner is the name under which the reconciler's writes are recorded.
const FieldOwner = client.FieldOwner("rollcall-controller")

// concurrency is how many gangs are looked at at once. A look is a few reads of the
// cache; what takes time is a write now and then.
const concurrency = 2

// Reconciler follows gangs.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// Live reads from the API server, for the rare case that the cache, which
	// holds our own objects alone, cannot answer.
	Live client.Reader
	// Engine reads workloads as gangs.
	Engine *injectors.Engine
	// Recorder records Events on workloads.
	Recorder events.EventRecorder
	// Clock dates phases.
	Clock clock.PassiveClock

	memory memory
	pacer  pacer
}

// Request names what is looked at together: a workload that is a gang by itself, or a
// gang of several. The runs of a CronJob bear the name of one gang, and are a gang
// each.
type Request struct {
	// Namespace is theirs.
	Namespace string
	// Gang is the name of a gang of several; empty for a workload alone.
	Gang string
	// Kind and Name are those of a workload alone.
	Kind gang.Kind
	Name string
}

// SetupWithManager registers the controller of gangs.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, e *injectors.Engine) error {
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Engine:   e,
		Recorder: mgr.GetEventRecorder("rollcall"),
		Clock:    clock.RealClock{},
	}
	if err := r.index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := metrics.Registry.Register(census{r.Client}); err != nil && !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return fmt.Errorf("registering the count of gangs: %w", err)
	}
	// A Service is watched for its loss alone; nothing else of it moves a gang.
	lost := predicate.Funcs{
		CreateFunc: none[event.CreateEvent], UpdateFunc: none[event.UpdateEvent], GenericFunc: none[event.GenericEvent],
	}
	err := builder.TypedControllerManagedBy[Request](mgr).
		Named("gang").
		Watches(&batchv1.Job{}, handler.TypedEnqueueRequestsFromMapFunc(r.requests)).
		Watches(&appsv1.StatefulSet{}, handler.TypedEnqueueRequestsFromMapFunc(r.requests)).
		Watches(&corev1.Service{}, handler.TypedEnqueueRequestsFromMapFunc(r.requestsOfService), builder.WithPredicates(lost)).
		Watches(&corev1.Pod{}, r.podEvents()).
		WithOptions(controller.TypedOptions[Request]{MaxConcurrentReconciles: concurrency, RateLimiter: retries()}).
		WithLogConstructor(func(req *Request) logr.Logger {
			log := mgr.GetLogger().WithValues("controller", "gang")
			switch {
			case req == nil:
				return log
			case req.Gang != "":
				return log.WithValues("namespace", req.Namespace, "gang", req.Gang)
			}
			return log.WithValues("namespace", req.Namespace, "kind", req.Kind, "name", req.Name)
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of gangs: %w", err)
	}
	return nil
}

// retries spaces the looks at a gang that fail. When one step does, such as a Service that a
// quota forbids, the others are due all the same, and some by time alone: the end of a
// back-off, a pod that is overdue. A look that failed loses when it wanted the next, so that
// comes soon; controller-runtime's own bound of 1000 s would be the length of a back-off.
func retries() workqueue.TypedRateLimiter[Request] {
	const first, last = 5 * time.Millisecond, 30 * time.Second
	return workqueue.NewTypedItemExponentialFailureRateLimiter[Request](first, last)
}

// Reconcile brings one gang's children and phase up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req Request) (ctrl.Result, error) {
	workloads, err := r.gather(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(workloads) == 0 {
		r.memory.forget(req)
		r.pacer.forget(req)
		return ctrl.Result{}, nil
	}
	l := &look{request: req}
	if p, ok := r.party(l, workloads); ok {
		r.follow(ctx, p)
	} else {
		r.memory.forget(req)
		for _, w := range workloads {
			r.follow(ctx, r.alone(ctx, l, w))
		}
	}
	if err := errors.Join(l.errs...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: l.after}, nil
}

// follow makes children and phase of one gang. The phase is told whatever becomes of
// the rest, and what becomes of one member does not keep the others waiting.
func (r *Reconciler) follow(ctx context.Context, p *party) {
	for _, m := range p.members {
		if !m.injected() {
			p.look.met(r.reportMissed(ctx, m.Workload))
		}
	}
	state := p.state()
	see, err := r.sight(ctx, p, state)
	if err != nil {
		p.look.met(err)
		return
	}
	r.pacer.looked(p.look.request, p.look.pods, see.Now)
	next := state.Next(p.lifecycle(), see)
	if !next.Phase.Terminal() {
		for _, m := range p.members {
			if m.injected() && next.Phase != gang.Restarting {
				p.look.met(r.resize(ctx, m.Workload))
			}
		}
		p.look.met(r.children(ctx, p, next.Phase))
	}
	r.wake(p, next)
	r.followState(ctx, p, next)
	p.look.met(r.clean(ctx, p, next))
}

// wake asks for another look when time alone will move the gang.
func (r *Reconciler) wake(p *party, s gang.State) {
	now := r.Clock.Now()
	if s.Phase == gang.Restarting && s.NotBefore.After(now) {
		p.look.again(s.NotBefore.Sub(now))
	}
	if t := p.lifecycle().StartTimeout; t > 0 && !s.WasWhole && p.lifecycle().Restart != gang.RestartPod && (s.Phase == gang.Pending || s.Phase == gang.Starting) && !s.Begun.IsZero() {
		p.look.again(max(time.Second, s.Begun.Add(t).Sub(now)))
	}
}

// look is one look at a gang: what went wrong, and when to look again.
type look struct {
	request Request
	after   time.Duration
	errs    []error
	// pods is how many were read.
	pods int
}

// again asks for another look after d, or sooner.
func (l *look) again(d time.Duration) {
	if l.after == 0 || d < l.after {
		l.after = d
	}
}

// met notes what came of a step. A nil error is none.
func (l *look) met(err error) {
	switch {
	case err == nil:
	case apierrors.IsConflict(err), errors.Is(err, errRewound):
		// The cache is behind; the write that it has not seen yet brings us back.
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// So it is with what is gone by now, or goes.
	case errors.Is(err, errServiceTaken):
		l.again(serviceRetry)
	case errors.Is(err, errServiceGoing):
		l.again(time.Second)
	default:
		l.errs = append(l.errs, err)
	}
}
