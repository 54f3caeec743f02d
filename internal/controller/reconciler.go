package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/roster"
)

// FieldOwner is the field manager of all writes of the reconciler.
const FieldOwner = client.FieldOwner("rollcall-controller")

// maxConcurrentReconciles is the number of gangs that are reconciled at the same time. A pass consists
// of reads of the cache and rare writes. While some passes wait for a slow write, others continue.
const maxConcurrentReconciles = 10

// Reconciler reconciles gangs. Its exported fields except those of Options are
// required.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server. It is used for objects that the cache does not contain: the
	// cache contains only Services of Rollcall and trimmed pods.
	APIReader client.Reader
	// Engine parses workloads into gangs.
	Engine *injectors.Engine
	// Recorder records Events on workloads, and on Services that are too large.
	Recorder events.EventRecorder
	// Clock provides the present, which is compared with the times of objects.
	Clock clock.PassiveClock
	Options

	sessions   sessions
	nodeLabels nodeLabels
	nodeLedger nodeLedger
	// reportRetryTime is the time in nanoseconds at which the API of the reports is looked for; 0 if it was never missing.
	reportRetryTime atomic.Int64
	// queueWatch is nil without QueueGangs.
	queueWatch *queueWatch
	// rankLogs is nil without ReadLogs.
	rankLogs *rankLogReads
	// namespaceLabels are the values of the label namespace; nil for none.
	namespaceLabels *namespaceLabels
}

// Options are the settings of a Reconciler. The zero value is valid.
type Options struct {
	// Namespaces selects the namespaces by their labels. The reconciler reads no gangs and writes no
	// objects in any other namespace. Nil selects all namespaces.
	Namespaces labels.Selector
	// Policy provides the policy of the cluster. Nil means that there is no policy.
	Policy policy.Source
	// PolicyReports writes a Report of openreports.io for each gang that violates the policy.
	PolicyReports bool
	// MetricNamespaces is the maximum number of namespaces in metrics; 0 for metrics without namespaces.
	MetricNamespaces int
	// QueueGangs creates one Workload of Kueue for each gang of several workloads in a queue.
	QueueGangs bool
	// ReadLogs finds gangs whose rank 0 prints no line that matches their pattern.
	ReadLogs bool
	// NodeEvents records Events on nodes, which are in the namespace default.
	NodeEvents bool
	// ServerClock is the clock of the reconciler. Nil means the clock of the machine.
	ServerClock *ServerClock
}

// Request identifies the workloads that are reconciled together: a gang of one workload by the kind and
// the name of the workload, or a multi-workload gang by its name. The runs of a CronJob have the same
// gang name, and each run is a gang.
type Request struct {
	// Namespace is the namespace of the workloads.
	Namespace string
	// Gang is the name of a multi-workload gang; empty for a gang of one workload.
	Gang string
	// Kind and Name identify the workload of a gang of one workload.
	Kind gang.Kind
	Name string
}

// SetupWithManager registers the gang controller and its metrics with a manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, e *injectors.Engine, o Options) error {
	r := &Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Engine:    e,
		Recorder:  mgr.GetEventRecorder("rollcall"),
		Clock:     clock.RealClock{},
		Options:   o,
	}
	if o.ServerClock != nil {
		r.Clock = o.ServerClock
	}
	if err := r.RegisterIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.namespaceLabels = &namespaceLabels{limit: o.MetricNamespaces}
	err := metrics.Registry.Register(gangCollector{r})
	if err != nil && !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return fmt.Errorf("registering the gang collector: %w", err)
	}
	b := builder.TypedControllerManagedBy[Request](mgr).
		Named("gang").
		Watches(&batchv1.Job{}, handler.TypedEnqueueRequestsFromMapFunc(r.RequestsFor)).
		Watches(&appsv1.StatefulSet{}, handler.TypedEnqueueRequestsFromMapFunc(r.RequestsFor)).
		Watches(&corev1.Service{}, r.serviceEventHandler()).
		Watches(&corev1.Pod{}, r.podEventHandler()).
		WithOptions(controller.TypedOptions[Request]{
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             NewRateLimiter(),
			NewQueue:                newRequestQueue,
		}).
		WithLogConstructor(newLogConstructor(mgr.GetLogger()))
	if r.readsNamespaces() {
		b = b.Watches(&corev1.Namespace{}, handler.TypedEnqueueRequestsFromMapFunc(r.RequestsFor),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	if o.Policy != nil {
		b = b.WatchesRawSource(source.TypedFunc[Request](r.watchPolicy))
	}
	if o.QueueGangs {
		watch, err := newQueueWatch(mgr.GetConfig(), mgr.GetRESTMapper())
		if err != nil {
			return err
		}
		r.queueWatch = watch
		b = b.WatchesRawSource(source.TypedFunc[Request](watch.start))
	}
	if o.ReadLogs {
		read, err := newLogReader(mgr.GetConfig())
		if err != nil {
			return err
		}
		r.rankLogs = newRankLogReads(read)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("setting up the gang controller: %w", err)
	}
	return nil
}

// newLogConstructor returns a function that creates the logger of a request; nil for the logger of the
// controller.
func newLogConstructor(base logr.Logger) func(*Request) logr.Logger {
	return func(req *Request) logr.Logger {
		log := base.WithValues("controller", "gang")
		switch {
		case req == nil:
			return log
		case req.Gang != "":
			return log.WithValues("namespace", req.Namespace, "gang", req.Gang)
		}
		return log.WithValues("namespace", req.Namespace, "kind", req.Kind, "name", req.Name)
	}
}

// NewRateLimiter limits the retry back-off to 30 seconds. A failed pass loses its RequeueAfter, but
// steps that depend on time still have to run: the end of a back-off, and a pod that exceeds its grace
// period. controller-runtime's default maximum of 1000 seconds would delay these steps too long.
func NewRateLimiter() workqueue.TypedRateLimiter[Request] {
	const initialDelay, maxDelay = 5 * time.Millisecond, 30 * time.Second
	return workqueue.NewTypedItemExponentialFailureRateLimiter[Request](initialDelay, maxDelay)
}

// Reconcile brings the child objects and the status of the gangs of a request up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req Request) (ctrl.Result, error) {
	managed, err := r.isManagedNamespace(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	var groups []roster.Group
	if managed {
		if groups, err = r.listGangs(ctx, req); err != nil {
			return ctrl.Result{}, err
		}
	}
	p := r.newPass(req)
	if len(groups) == 0 {
		if managed {
			r.syncReports(ctx, p, nil)
		}
		r.sessions.forgetGang(req, len(p.errs) > 0 || p.requeueDelay > 0)
		return p.result()
	}
	var gangs []*observedGang
	for _, group := range groups {
		observed, err := r.observeGangs(ctx, p, group)
		p.handleError(err)
		gangs = append(gangs, observed...)
	}
	judged := r.judgeGangs(ctx, req, gangs)
	for _, g := range gangs {
		r.reconcileGang(ctx, g)
	}
	if judged {
		r.syncReports(ctx, p, gangs)
	}
	return p.result()
}

// reconcileGang brings the child objects and the status of one gang up to date. The status is written
// even if another step fails, and an error of one member does not affect the others, so that users
// always see the current phase.
func (r *Reconciler) reconcileGang(ctx context.Context, g *observedGang) {
	for _, m := range slices.Concat(g.Members, g.Strangers) {
		if isTooLarge(m.Meta()) {
			r.reportTooLarge(m.Workload)
		} else if !m.IsInjected() {
			g.pass.handleError(r.reportNotInjected(ctx, m.Workload))
		}
	}
	r.reportEarlierRun(g)
	if len(g.Conflicts) > 0 {
		r.freezeGang(ctx, g)
		return
	}
	if g.hasStaleMember() {
		return // the event of the write causes the next pass
	}
	state := g.lastState()
	r.recordNodeFailures(g, state)
	memory := &g.pass.session.memory
	if g.multiWorkload && !state.Phase.Terminal() {
		g.memberStates = memory.RestoreCompleted(g.memberStates)
	}
	if err := r.observe(ctx, g, state); err != nil {
		g.pass.handleError(err)
		return
	}
	if decides, err := r.followQueue(ctx, g, state); err != nil || !decides {
		g.pass.handleError(err)
		return
	}
	snapshot := g.observed.Snapshot
	r.sessions.recordPass(g.pass.request, g.pass.podCount, snapshot.Now)
	next := state.Next(g.gangPolicies(), snapshot)
	delay, mustReadMembers := memory.Confirm(state, next, snapshot)
	if g.pass.requeueAfter(delay); delay > 0 || mustReadMembers && !r.isCacheCurrent(ctx, g) {
		return
	}
	memory.RecordDecision(state, next)
	next, delay = memory.DelayRecord(state, next, snapshot.Now)
	g.pass.requeueAfter(delay)
	if r.prepareWorkloads(ctx, g, next); g.awaitsIsolation {
		return
	}
	r.scheduleNextPass(g, next)
	r.syncState(ctx, g, next)
	g.pass.handleError(r.startFromQueue(ctx, g, state, next))
	r.reportStrangers(ctx, g)
	r.reportUnboundPods(g, next)
	r.cleanUpPodsOrReport(ctx, g, next)
}

// prepareWorkloads provides what the pods of a gang need in a phase, which is no more than its PodGroup after the end.
func (r *Reconciler) prepareWorkloads(ctx context.Context, g *observedGang, next lifecycle.State) {
	if next.Phase.Terminal() {
		g.pass.handleError(r.ensurePodGroup(ctx, g, next)) // may delete it
		return
	}
	for _, m := range g.Members {
		if m.IsInjected() && next.Phase != lifecycle.Restarting {
			g.pass.handleError(r.reinjectAfterResize(ctx, g.pass, m.Workload))
		}
	}
	g.pass.handleError(r.ensureChildrenOrReport(ctx, g, next))
}

// scheduleNextPass schedules a pass for the time at which the back-off elapses or a timeout expires, because no event
// marks these times.
func (r *Reconciler) scheduleNextPass(g *observedGang, next lifecycle.State) {
	now := r.Clock.Now()
	if remaining := next.RemainingBackoff(now); next.Phase == lifecycle.Restarting && remaining > 0 {
		g.pass.requeueAfter(remaining)
	}
	if deadline := next.NextDeadline(g.gangPolicies(), g.observed.Snapshot); !deadline.IsZero() {
		g.pass.requeueAfter(max(time.Second, deadline.Sub(now)))
	}
}

// pass collects the results of one pass over the gangs of a request.
type pass struct {
	request Request
	// session is the session of the request.
	session *session
	// requeueDelay is the delay before the next pass; 0 if only an event causes the next pass.
	requeueDelay time.Duration
	// errs contains the errors for which the pass is retried.
	errs []error
	// podCount is the number of pods that the pass read.
	podCount int
}

func (r *Reconciler) newPass(req Request) *pass {
	return &pass{request: req, session: r.sessions.forRequest(req)}
}

// result returns the result of the pass for the queue.
func (p *pass) result() (ctrl.Result, error) {
	if err := errors.Join(p.errs...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.requeueDelay}, nil
}

// requeueAfter schedules the next pass after a delay, unless an earlier pass is scheduled. A delay of 0 schedules none.
func (p *pass) requeueAfter(delay time.Duration) {
	if delay != 0 && (p.requeueDelay == 0 || delay < p.requeueDelay) {
		p.requeueDelay = delay
	}
}

// conflictRetryDelay is the delay before a pass is repeated that had a conflict. The event of the change that the
// cache did not contain usually causes a pass before. Admission can report a conflict without a change, too.
const conflictRetryDelay = 5 * time.Second

// handleError records the error of a step, which may be nil. Errors that the next event or a scheduled
// pass resolves are not recorded.
func (p *pass) handleError(err error) {
	switch {
	case err == nil:
	case apierrors.IsConflict(err):
		p.requeueAfter(conflictRetryDelay)
	case isResolvedByNextEvent(err):
	case errors.Is(err, errServiceConflict):
		p.requeueAfter(obstacleRetryInterval)
	case errors.Is(err, errChildChanging):
		p.requeueAfter(time.Second)
	default:
		p.errs = append(p.errs, err)
	}
}

// isResolvedByNextEvent reports whether a change of an object, whose event causes the next pass,
// resolves an error:
//
//   - The cache is stale: the object was deleted, or its namespace is terminating.
//   - The pass reset the status of a Job ([errJobStatusReset]). The next pass resumes the Job.
//   - The member reports a rejected change, and the pass is repeated later ([errUpdateRejected]).
//   - The Job controller has to count the pods of a Job first ([errJobStatusPending]).
func isResolvedByNextEvent(err error) bool {
	return errors.Is(err, errJobStatusReset) || errors.Is(err, errJobStatusPending) ||
		errors.Is(err, errUpdateRejected) ||
		apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
