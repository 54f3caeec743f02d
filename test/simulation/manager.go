package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/controller"
)

// errCrashed ends the passes of a manager that has crashed.
var errCrashed = errors.New("the manager has crashed")

// manager is a process of Rollcall that is the leader, or believes that it is: the real reconciler with
// caches, a work queue and a clock of its own.
type manager struct {
	*world
	api        *api
	admission  *admitter
	oracle     *oracle
	reconciler *controller.Reconciler
	mapper     meta.RESTMapper
	number     int
	skew       time.Duration
	clock      *controller.ServerClock
	transport  http.RoundTripper
	watches    map[kind]*watch
	indexes    map[kind]map[string]client.IndexerFunc
	waiting    map[controller.Request]time.Time
	limiter    workqueue.TypedRateLimiter[controller.Request]
	// busy is true during a pass. Other events run between the requests of the pass.
	busy    bool
	crashed bool
	// observedResults contains the Jobs of which a pass has observed the result.
	observedResults sets.Set[types.UID]
	// requestsLeft is the number of requests before the manager crashes; negative for no crash.
	requestsLeft int
}

// newManager starts a leader. Its caches contain what exists now.
func newManager(s *simulation, number int, skew time.Duration) *manager {
	m := &manager{
		world: s.world, api: s.api, admission: s.admission, oracle: s.oracle, number: number, skew: skew,
		watches: map[kind]*watch{}, indexes: map[kind]map[string]client.IndexerFunc{},
		waiting: map[controller.Request]time.Time{}, limiter: controller.NewRateLimiter(), requestsLeft: -1,
		mapper: s.mapper, observedResults: sets.Set[types.UID]{},
	}
	m.clock = controller.NewServerClock(m)
	m.transport = m.clock.WrapTransport(dateTransport{m})
	m.measureClock() // the caches are filled by requests
	m.reconciler = &controller.Reconciler{
		Client: cacheClient{m: m}, APIReader: liveReader{m: m}, Engine: engine, Recorder: recorder{m: m}, Clock: m.clock,
	}
	if err := m.reconciler.RegisterIndexes(context.Background(), m); err != nil {
		panic(err) // the indexer of this file returns no error
	}
	m.record(m.String(), "leads (clock %s ahead)", skew)
	prefix := fmt.Sprintf("rollcall-%d/", number)
	m.watches[jobKind] = m.api.watch(
		jobKind, prefix+"jobs", labeled(gang.LabelFramework, controller.TrimWorkload), m.observe)
	m.watches[statefulSetKind] = m.api.watch(
		statefulSetKind, prefix+"statefulsets", labeled(gang.LabelFramework, controller.TrimWorkload), m.observe)
	m.watches[serviceKind] = m.api.watch(serviceKind, prefix+"services", labeled(gang.LabelGang, controller.TrimService),
		func(_, after client.Object) {
			if after == nil {
				m.enqueueAll(m.api.list(jobKind)) // the map function of the real watch reads the deleted Service
			}
		})
	m.watches[podKind] = m.api.watch(podKind, prefix+"pods", labeled(gang.LabelGang, controller.CompactPod), m.observePod)
	for _, k := range []kind{jobKind, statefulSetKind} {
		m.enqueueAll(m.watches[k].list())
	}
	return m
}

func (m *manager) String() string { return fmt.Sprintf("rollcall %d", m.number) }

// labeled returns a transform function of a cache that contains only objects with a label.
func labeled(label string, transform func(any) (any, error)) func(client.Object) client.Object {
	return func(o client.Object) client.Object {
		if _, ok := o.GetLabels()[label]; !ok {
			return nil
		}
		out, err := transform(clone(o))
		if err != nil {
			panic(err) // the transform functions return no errors
		}
		return out.(client.Object)
	}
}

// IndexField implements client.FieldIndexer.
func (m *manager) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	k := kindOf(o)
	if m.indexes[k] == nil {
		m.indexes[k] = map[string]client.IndexerFunc{}
	}
	m.indexes[k][field] = extract
	return nil
}

// matchesIndex reports whether an object has the keys of a list request.
func (m *manager) matchesIndex(k kind, o client.Object, options *client.ListOptions) bool {
	if options.FieldSelector == nil {
		return true
	}
	for _, requirement := range options.FieldSelector.Requirements() {
		keys := m.indexes[k][requirement.Field](o)
		if len(keys) == 0 || keys[0] != requirement.Value {
			return false
		}
	}
	return true
}

// dateTransport responds with the time of the API server.
type dateTransport struct{ m *manager }

// RoundTrip implements http.RoundTripper.
func (t dateTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Date": {t.m.now.UTC().Format(http.TimeFormat)}}, Body: http.NoBody}, nil
}

// measureClock measures the offset of the clock in a response.
func (m *manager) measureClock() {
	response, err := m.transport.RoundTrip(nil)
	if err == nil {
		_ = response.Body.Close() // has no content
	}
}

// Now implements clock.PassiveClock.
func (m *manager) Now() time.Time { return m.now.Add(m.skew) }

// Since implements clock.PassiveClock.
func (m *manager) Since(t time.Time) time.Duration { return m.Now().Sub(t) }

func (m *manager) observe(before, after client.Object) {
	for _, o := range []client.Object{before, after} {
		if o != nil {
			m.enqueueAll([]client.Object{o})
		}
	}
}

func (m *manager) observePod(before, after client.Object) {
	o := after
	if o == nil {
		o = before
	}
	for _, req := range m.reconciler.RequestsFor(context.Background(), o) {
		m.enqueue(req, m.reconciler.PodEventDelay(req))
	}
}

func (m *manager) enqueueAll(objects []client.Object) {
	for _, o := range objects {
		for _, req := range m.reconciler.RequestsFor(context.Background(), o) {
			m.enqueue(req, 0)
		}
	}
}

// enqueue schedules a pass, unless an earlier one is scheduled.
func (m *manager) enqueue(req controller.Request, delay time.Duration) {
	if m.crashed {
		return
	}
	due := m.now.Add(delay + m.delay(fmt.Sprintf("rollcall-%d/passes", m.number)))
	if other, ok := m.waiting[req]; ok && !other.After(due) {
		return
	}
	m.waiting[req] = due
	m.at(due, func() { m.pass(req, due) })
}

// pass runs one pass of the reconciler, unless another pass runs.
func (m *manager) pass(req controller.Request, due time.Time) {
	if m.crashed || m.waiting[req] != due {
		return
	}
	delete(m.waiting, req)
	if m.busy {
		m.enqueue(req, time.Millisecond)
		return
	}
	m.busy = true
	m.oracle.passes++
	for _, o := range m.watches[jobKind].list() {
		if job := o.(*batchv1.Job); hasResult(job) {
			m.observedResults.Insert(job.UID)
		}
	}
	result, err := m.reconciler.Reconcile(context.Background(), req)
	m.busy = false
	switch {
	case m.crashed:
	case err != nil:
		m.enqueue(req, m.limiter.When(req))
	default:
		m.limiter.Forget(req)
		if result.RequeueAfter > 0 {
			m.enqueue(req, result.RequeueAfter)
		}
	}
}

// crash ends the process. Its caches and its queue are lost.
func (m *manager) crash() {
	m.record(m.String(), "ends")
	m.crashed = true
	for _, w := range m.watches {
		w.closed = true
	}
	m.oracle.forgetDisruptions()
	m.oracle.forgetResults()
}

// interrupt lets other events happen before a request of a pass arrives. It returns an error if the manager
// crashes meanwhile.
func (m *manager) interrupt() error {
	if m.crashed {
		return errCrashed
	}
	if m.requestsLeft == 0 {
		m.crash()
		return errCrashed
	}
	if m.requestsLeft > 0 {
		m.requestsLeft--
	}
	if m.disturbed {
		m.runUntil(m.now.Add(m.delay(fmt.Sprintf("rollcall-%d/requests", m.number))))
	}
	if m.crashed {
		return errCrashed
	}
	m.measureClock()
	return nil
}

// request makes a request, which may fail before or after the API server has handled it.
func (m *manager) request(verb string, o client.Object, handle func() (client.Object, error)) error {
	if err := m.interrupt(); err != nil {
		return err
	}
	k := kindOf(o)
	before, after := m.fault(k, o.GetName(), verb)
	if before != nil {
		m.record(m.String(), "%s %s %s is rejected: %v", verb, k, o.GetName(), before)
		return before
	}
	result, err := handle()
	if err != nil {
		m.record(m.String(), "%s %s %s fails: %v", verb, k, o.GetName(), err)
		return err
	}
	m.oracle.countWrite(k)
	m.record(m.String(), "%s %s %s", verb, k, o.GetName())
	if m.crashed {
		return errCrashed
	}
	if after != nil {
		return after
	}
	return assign(o, result)
}

// fault returns the error of a request that is not handled, and of a request whose response is lost.
func (m *manager) fault(k kind, name, verb string) (before, after error) {
	isProtected := m.oracle.forbidden.HasAny(string(k), name)
	if isProtected && verb != "patch status" && verb != "get" && verb != "list" {
		return apierrors.NewForbidden(resources[k], name, errors.New("denied by a policy")), nil
	}
	if !m.disturbed {
		return nil, nil
	}
	s := m.stream("faults")
	if m.calm["faults"] || s.IntN(40) > 0 {
		return nil, nil
	}
	switch s.IntN(8) {
	case 0:
		return apierrors.NewConflict(resources[k], name, nil), nil
	case 1:
		return apierrors.NewTooManyRequestsError("later"), nil
	case 2:
		return apierrors.NewInternalError(errors.New("etcdserver: leader changed")), nil
	case 3:
		return nil, apierrors.NewTimeoutError("the response is lost", 1)
	case 4:
		return apierrors.NewTimeoutError("the request is lost", 1), nil
	case 5:
		return apierrors.NewForbidden(resources[k], name, errors.New("exceeded quota")), nil
	case 6:
		return apierrors.NewInvalid(schema.GroupKind{Kind: string(k)}, name, nil), nil
	default:
		return context.DeadlineExceeded, nil
	}
}

// recorder records Events in the report of the run.
type recorder struct{ m *manager }

func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	o := regarding.(client.Object)
	r.m.record(r.m.String(), "Event %s on %s: %s", reason, o.GetName(), fmt.Sprintf(note, args...))
}

// engine is the engine of the webhook and of all managers.
var engine = injectors.NewEngine(injectors.Builtin(), gang.Config{})

// newMapper returns a mapper that knows Kueue if it is installed.
func newMapper(hasKueue bool) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	if hasKueue {
		kueue := schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta1", Kind: "Workload"}
		mapper.Add(kueue, meta.RESTScopeNamespace)
	}
	return mapper
}
