package simulation

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/webhook"
)

// simulation is one run of a scenario.
type simulation struct {
	*world
	scenario  Scenario
	api       *api
	admission *admitter
	oracle    *oracle
	programs  *programs
	nodes     []*node
	scheduler *scheduler
	jobs      *jobController
	sets      *statefulSetController
	managers  []*manager
	mapper    meta.RESTMapper
	// userSuspended is true while a user or a queue wants the gang to be suspended.
	userSuspended bool
	// scaledToZero contains the StatefulSets that the user scaled to 0.
	scaledToZero  map[string]bool
	queueWorkload queueWorkload
	// deleted contains the members that a user deleted and did not create again.
	deleted map[string]bool
}

// quietPeriod is how long after the last incident a gang has time to reach a final state: longer than all
// delays, the back-offs, the tolerations and the grace periods together.
const quietPeriod = time.Hour

// Result is the result of a run.
type Result struct {
	Scenario   Scenario
	Violations []violation
	// Events is the number of events that ran.
	Events int
	// Writes is the number of accepted writes of Rollcall.
	Writes int
	// Quiet is the status after nothing has happened for a long time, and End after all programs have finished.
	Quiet, End lifecycle.Status
	noisy      []string
	trace      []traceEntry
}

// Run runs a scenario.
func Run(scenario Scenario) Result {
	s := newSimulation(scenario)
	last := time.Duration(0)
	for _, i := range scenario.Incidents {
		s.at(epoch.Add(i.At), func() { s.apply(i) })
		last = max(last, i.At)
	}
	s.oracle.watchReadiness("")
	s.runUntil(epoch.Add(last + time.Second))
	s.disturbed = false
	for _, m := range s.leaders() {
		m.requestsLeft = -1
	}
	if len(s.leaders()) == 0 {
		s.startManager()
	}
	s.admission.down = false
	s.runUntil(s.now.Add(quietPeriod))
	passes := s.oracle.passes
	s.runUntil(s.now.Add(quietPeriod))
	s.oracle.checkQuiet(s.oracle.passes - passes)
	quiet := s.oracle.final
	s.programs.endAll()
	s.runUntil(s.now.Add(quietPeriod))
	s.oracle.checkEnd()
	if s.executed >= maxEvents {
		s.oracle.violate(tooManyPasses, "the run did not end after %d events", s.executed)
	}
	return Result{
		Scenario: scenario, Violations: s.oracle.found, Events: s.executed, Writes: s.oracle.writes,
		Quiet: quiet, End: s.oracle.final, noisy: s.noisyStreams(), trace: s.trace,
	}
}

func newSimulation(scenario Scenario) *simulation {
	w := newWorld(scenario)
	s := &simulation{
		world: w, scenario: scenario, api: newAPI(w), deleted: map[string]bool{}, scaledToZero: map[string]bool{},
	}
	s.admission = &admitter{mutator: webhook.NewMutator(engine, nil), validator: webhook.NewValidator(engine, nil)}
	s.oracle = newOracle(s)
	s.mapper = newMapper(scenario.Shape == queuedJob)
	s.programs = &programs{
		world: w, behavior: scenario.Behavior, oracle: s.oracle, ended: map[types.UID]time.Time{},
	}
	s.jobs, s.sets = newJobController(s.api), newStatefulSetController(s.api)
	for i, skew := range scenario.NodeSkews {
		s.nodes = append(s.nodes, newNode(s.api, fmt.Sprintf("node-%d", i), skew, s.programs))
	}
	s.scheduler = newScheduler(s.api, s.nodes)
	s.collectGarbage()
	s.collectPods()
	s.startManager()
	for _, m := range scenario.members() {
		w.after("user/create", func() { s.create(m) })
	}
	if scenario.Shape == queuedJob {
		s.userSuspended = true
		s.startQueue(scenario.members()[0])
	}
	return s
}

// startManager starts another process of Rollcall that believes to be the leader.
func (s *simulation) startManager() {
	s.oracle.leaders++
	number, skew := len(s.managers), s.scenario.ManagerSkew
	if number%2 == 1 {
		skew = 0
	}
	s.managers = append(s.managers, newManager(s, number, skew))
}

// leaders returns the managers that have not crashed.
func (s *simulation) leaders() []*manager {
	var out []*manager
	for _, m := range s.managers {
		if !m.crashed {
			out = append(out, m)
		}
	}
	return out
}

// collectGarbage deletes the dependents of deleted objects, and finished Jobs whose time to live has passed.
func (s *simulation) collectGarbage() {
	s.api.written = append(s.api.written, func(before, after client.Object) {
		s.noteFailedJob(after)
		if job, ok := after.(*batchv1.Job); ok && isJobFinished(job) && job.Spec.TTLSecondsAfterFinished != nil {
			if old, ok := before.(*batchv1.Job); ok && !isJobFinished(old) {
				s.at(s.now.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished)*time.Second+s.delay("ttl")), func() {
					s.record("ttl", "deletes %s", job.Name)
					s.oracle.expired[job.UID] = job.Name
					s.noteExpiredResult(job)
					_ = s.api.delete(jobKind, job.Name, deleteOptions{uid: job.UID, foreground: true}) // gone already
				})
			}
		}
		if after == nil {
			if !s.oracle.isAnyMember() {
				s.deleteStrangers()
			}
			s.programs.ended[before.GetUID()] = s.now
			s.after("garbage-collector", func() {
				s.deleteDependents(before)
				for _, ref := range before.GetOwnerReferences() {
					s.finishForeground(kind(ref.Kind), ref.Name)
				}
			})
		} else if isForegroundDeleted(after) && !isForegroundDeleted(before) {
			s.after("garbage-collector", func() {
				s.deleteDependents(after)
				s.finishForeground(kindOf(after), after.GetName())
			})
		}
		if pod, ok := after.(*corev1.Pod); ok && before == nil && !s.hasOwner(pod) {
			s.after("garbage-collector", func() {
				_ = s.api.delete(podKind, pod.Name, deleteOptions{uid: pod.UID}) // gone already
			})
		}
	})
}

// noteFailedJob records when Kubernetes decided that a Job fails. after may be nil.
func (s *simulation) noteFailedJob(after client.Object) {
	job, ok := after.(*batchv1.Job)
	if !ok || !hasJobCondition(job, batchv1.JobFailureTarget) {
		return
	}
	if _, isKnown := s.programs.ended[job.UID]; !isKnown {
		s.programs.ended[job.UID] = s.now
	}
}

// collectPods sets terminating pods without a node to the phase Failed (pkg/controller/podgc,
// gcUnscheduledTerminating).
func (s *simulation) collectPods() {
	s.api.written = append(s.api.written, func(_, after client.Object) {
		pod, isPod := after.(*corev1.Pod)
		if isPod && pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" && !isTerminal(pod) {
			s.at(s.now.Add(20*time.Second), func() { s.failWithoutNode(pod) })
		}
	})
}

func (s *simulation) failWithoutNode(deleted *corev1.Pod) {
	o := s.api.find(podKind, deleted.Name)
	if o == nil || o.GetUID() != deleted.UID {
		return
	}
	failed := clone(o.(*corev1.Pod))
	if !isTerminal(failed) {
		failed.Status.Phase = corev1.PodFailed
		_, _ = s.api.update(failed, "status") // the version is current
	}
}

// deleteDependents deletes the objects all of whose owners are gone.
func (s *simulation) deleteDependents(owner client.Object) {
	for _, k := range []kind{podKind, serviceKind, secretKind} {
		for _, o := range s.api.list(k) {
			if isOwnedBy(o, owner) && !s.hasOwner(o) {
				_ = s.api.delete(k, o.GetName(), deleteOptions{uid: o.GetUID()}) // it exists
			}
		}
	}
}

func isOwnedBy(o, owner client.Object) bool {
	for _, ref := range o.GetOwnerReferences() {
		if ref.UID == owner.GetUID() {
			return true
		}
	}
	return false
}

// hasOwner reports whether an object has an owner that is not being deleted together with its dependents.
func (s *simulation) hasOwner(o client.Object) bool {
	for _, ref := range o.GetOwnerReferences() {
		found := s.api.find(kind(ref.Kind), ref.Name)
		if found != nil && found.GetUID() == ref.UID && !isForegroundDeleted(found) {
			return true
		}
	}
	return false
}

func isForegroundDeleted(o client.Object) bool {
	return o != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// finishForeground deletes an owner that is to be deleted after its pods, if it has none.
func (s *simulation) finishForeground(k kind, name string) {
	owner := s.api.find(k, name)
	isLeft := func(o client.Object) bool { return isOwnedBy(o, owner) }
	if isForegroundDeleted(owner) && !slices.ContainsFunc(s.api.list(podKind), isLeft) {
		released := clone(owner)
		removeFinalizer(released, metav1.FinalizerDeleteDependents)
		_, _ = s.api.update(released, "") // the version is current
	}
}

// member returns an existing workload of the gang; false if it does not exist.
func (s *simulation) member(m memberSpec) (gang.Workload, bool) {
	k := jobKind
	if m.isStatefulSet {
		k = statefulSetKind
	}
	o := s.api.find(k, m.name)
	if o == nil {
		return gang.Workload{}, false
	}
	w, err := gang.WorkloadOf(clone(o))
	return w, err == nil
}

// updateMember changes a member as a user or a queue does, through admission.
func (s *simulation) updateMember(m memberSpec, change func(gang.Workload)) {
	w, ok := s.member(m)
	if !ok {
		return
	}
	change(w)
	before := s.api.find(kindOf(w.Object()), m.name)
	after, err := s.admission.admitUpdate(before, w.Object().(client.Object))
	if err == nil {
		_, err = s.api.update(after, "")
	}
	if err != nil {
		s.record("user", "cannot update %s: %v", m.name, err)
	}
}

// scale writes to the scale subresource, which no webhook of Rollcall sees.
func (s *simulation) scale(m memberSpec, replicas int32) {
	w, ok := s.member(m)
	if !ok || w.StatefulSet == nil {
		return
	}
	w.StatefulSet.Spec.Replicas = ptr.To(replicas)
	_, _ = s.api.update(w.StatefulSet, "") // the version is current
}

// resetStartTime clears the start time of a suspended Job, as Kueue does.
func (s *simulation) resetStartTime(m memberSpec) {
	w, ok := s.member(m)
	if !ok || w.Job == nil || w.Job.Status.StartTime == nil {
		return
	}
	w.Job.Status.StartTime = nil
	_, _ = s.api.update(w.Job, "status") // the version is current
}

// controllerOf returns the name of the workload of an object; empty without one.
func controllerOf(o client.Object) string {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return owner.Name
	}
	return ""
}
