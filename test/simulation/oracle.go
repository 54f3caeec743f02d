package simulation

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// property is the name of a rule that no sequence of events may violate.
type property string

// The properties. doc.go names the files that check them.
const (
	// failedTooEarly: a gang is never Failed while a restart is left and nothing non-retriable happened.
	failedTooEarly property = "failed with restarts left"
	// succeededTooEarly: a gang never succeeds before its success policy is met.
	succeededTooEarly property = "succeeded before its work was done"
	// attemptsOverlap: processes of two attempts never run at the same time, except on a lost node.
	attemptsOverlap property = "two attempts overlap"
	// gangSplit: no name of the gang resolves to a pod of an earlier attempt while a rank starts.
	gangSplit property = "a name leads to an earlier attempt"
	// extraAttempt: one incident costs at most one attempt.
	extraAttempt property = "one incident cost several attempts"
	// repeatedStart: no start is repeated without an incident, except after a suspension: a user or a queue can resume a
	// Job before its completed ranks are reset.
	repeatedStart property = "a start was repeated without an incident"
	// disruptionCounted: a disruption or a suspension uses up no restart.
	disruptionCounted property = "a disruption used up a restart"
	// failureForgiven: a failure of a program uses up a restart, unless something disrupted the gang.
	failureForgiven property = "a disruption is claimed without evidence"
	// failureIgnored: no rank runs on after a rank of its attempt failed.
	failureIgnored property = "a rank runs on after a failure"
	// strangerChanged: nothing of a stranger is changed, except for its report.
	strangerChanged property = "a stranger was changed"
	// tooManyWrites: the writes do not exceed the budget of docs/adr/0008.
	tooManyWrites property = "too many writes"
	// tooManyPasses: the passes of a gang that nothing happens to are rare.
	tooManyPasses property = "too many passes"
	// waitsIndefinitely: when events stop, the gang reaches a state in which it waits for nothing, or says for what.
	waitsIndefinitely property = "waits indefinitely"
	// falseReadiness: status and condition never say that all ranks are ready if one is not.
	falseReadiness property = "claims ranks that do not run"
	// wrongSize: after a resize, all ranks are configured for the new size.
	wrongSize property = "a rank is configured for another size"
	// timeoutTooEarly: a timeout never expires before a gang had the time.
	timeoutTooEarly property = "a timeout expired too early"
	// limitExceeded: a gang never restarts more often than permitted.
	limitExceeded property = "more restarts than permitted"
	// avoidedNode: a node that the status calls avoided gets no rank of the attempt.
	avoidedNode property = "a rank starts on an avoided node"
	// wrongSeconds: the seconds of a gang add up to the time since its creation, unless a clock is set back.
	wrongSeconds property = "the seconds are not the time that passed"
)

// violation is a property that a run violated.
type violation struct {
	Property property
	Text     string
	Time     time.Duration
}

// oracle compares what Rollcall writes with what really happened. It knows the documentation and the truth,
// and nothing about the code of Rollcall.
type oracle struct {
	*simulation
	// failures and disruptions count the incidents that hit a running attempt. parted counts the suspensions of one of
	// several members, which are disruptions after the member is resumed, and never a reason to fail before.
	failures, disruptions, parted int
	nonRetriable                  bool
	// failureTime is when a program of the gang failed last, and not because of SIGTERM, or a running gang lost a rank.
	// lostPod is the pod of that rank.
	failureTime time.Time
	lostPod     types.UID
	// successTime is when a master finished its work whose workers fail because of that; zero if there is none.
	successTime time.Time
	// mayExitUnobserved is true if ranks may have exited with code 0 on SIGTERM before a manager observed it.
	mayExitUnobserved bool
	// resultLost is true if a completed Job was deleted, and neither a status nor a manager that runs has the result.
	// expired contains the names of the completed Jobs that were deleted.
	resultLost bool
	expired    map[types.UID]string
	// peersTimedOut is true if ranks failed because of a lost node. The gang may end before the node is found lost.
	peersTimedOut bool
	// ended is true after the gang has ended once. Its user may run it again.
	ended bool
	// succeeded contains the ranks of each workload that finished their work in the current attempt.
	succeeded map[string]sets.Set[int32]
	completed sets.Set[string]
	// resumedTooEarly is true if a queue may have resumed a Job whose pods had not terminated.
	resumedTooEarly bool
	// resumedUnobserved is true if it did so before Rollcall had observed the suspension, or without the webhook.
	resumedUnobserved bool
	suspended         int
	// resizes is the number of resizes, and sizes contains the last sizes of StatefulSets that were not 0.
	resizes int
	sizes   map[string]int32
	// repetitions is how often a start may be repeated for another reason: the gang stopped avoiding a node, or a rank
	// of an earlier attempt succeeded on a lost node, and its Job counts it.
	repetitions int
	// startedApart is true if a user created or resumed one of several members while pods of the others ran.
	startedApart bool
	writes       int
	passes       int
	leaders      int
	// forbidden contains the kinds and the names of the members that policies protect from changes.
	forbidden sets.Set[string]
	// created and resumed are when a Job was created and resumed last. A Job that is resumed holds no nodes, while the
	// ranks of another member may hold theirs when a Job is created.
	created, resumed time.Time
	// restarted is when a Job was resumed last whose suspension its controller had observed.
	restarted map[string]time.Time
	strangers sets.Set[string]
	// isReplaced is true if a stranger existed while all members had finished. It is a new run of the gang then.
	isReplaced bool
	found      []violation
	last       map[types.UID]string
	final      lifecycle.Status
	// isUnrecorded is true if a pod was disrupted since the last status, which says that the gang is suspended.
	isUnrecorded bool
}

func newOracle(s *simulation) *oracle {
	o := &oracle{
		simulation: s, succeeded: map[string]sets.Set[int32]{}, completed: sets.Set[string]{}, forbidden: sets.Set[string]{},
		strangers: sets.Set[string]{}, last: map[types.UID]string{}, created: epoch, resumed: epoch,
		sizes: map[string]int32{}, expired: map[types.UID]string{}, restarted: map[string]time.Time{},
	}
	s.api.written = append(s.api.written, o.observe, o.observeService)
	return o
}

func (o *oracle) violate(p property, format string, args ...any) {
	if slices.ContainsFunc(o.found, func(v violation) bool { return v.Property == p }) {
		return
	}
	v := violation{Property: p, Text: fmt.Sprintf(format, args...), Time: o.now.Sub(epoch)}
	o.found = append(o.found, v)
	o.record("VIOLATION", "%s: %s", v.Property, v.Text)
}

// observe checks each write of anybody.
func (o *oracle) observe(before, after client.Object) {
	w, err := gang.WorkloadOf(cmpObject(after, before))
	if err != nil || o.strangers.Has(w.Meta().Name) {
		return
	}
	if before == nil && o.final.Phase.Terminal() && !o.isAnyOtherMemberActive(w.Meta().Name) {
		o.completed.Clear() // the user runs the gang again, and does not only create a member that was deleted
	}
	o.noteReplacement()
	if job, ok := after.(*batchv1.Job); ok {
		old, _ := before.(*batchv1.Job) // nil for a creation
		o.observeJob(old, job)
	}
	if after == nil {
		return
	}
	if w.StatefulSet != nil && !w.IsSuspended() {
		o.sizes[w.Meta().Name] = w.Ranks()
	}
	text := w.Meta().Annotations[gang.AnnotationStatus]
	if text == "" || o.last[w.Meta().UID] == text {
		return
	}
	status, known := lifecycle.ReadStatus(w), o.last[w.Meta().UID] != ""
	previous := o.final
	o.last[w.Meta().UID] = text
	o.record("status", "%s: %s %s restarts=%d disruptions=%d: %s", w.Meta().Name, status.Phase, status.Reason,
		status.Restarts, status.Disruptions, status.Message)
	if nodes := status.AvoidedNodes(); len(nodes) > 0 {
		o.record("status", "%s avoids %s", w.Meta().Name, strings.Join(nodes, " and "))
	}
	if isReleased := len(status.AvoidedNodes()) < len(previous.AvoidedNodes()); isReleased {
		o.repetitions++
	}
	o.checkStatus(previous, status, known)
	o.checkSeconds(before, status)
	o.final, o.isUnrecorded = status, o.isUnrecorded && status.Phase == lifecycle.Suspended
}

// observeJob records suspensions, resumptions and results of a Job. before is nil for a new Job.
func (o *oracle) observeJob(before, after *batchv1.Job) {
	wasSuspended := before != nil && ptr.Deref(before.Spec.Suspend, false)
	isSuspended := ptr.Deref(after.Spec.Suspend, false)
	if before != nil && hasJobCondition(after, batchv1.JobSuspended) && !hasJobCondition(before, batchv1.JobSuspended) {
		o.forgetSuccess(after) // until then, a rank that completes counts
	}
	switch {
	case before == nil:
		o.created = o.now
	case wasSuspended && !isSuspended:
		o.resumed = o.now
		if hasJobCondition(before, batchv1.JobSuspended) && before.Status.StartTime == nil {
			o.restarted[after.Name] = o.now.Truncate(time.Second)
		}
	}
	if isCompleting(after) && !isCompleting(before) { // a later write is not of the run that the user starts again
		o.completed.Insert(after.Name)
	}
}

// isAnyOtherMemberActive reports whether a member with another name exists that has no result.
func (o *oracle) isAnyOtherMemberActive(name string) bool {
	return slices.ContainsFunc(o.scenario.members(), func(m memberSpec) bool {
		w, ok := o.member(m)
		return ok && m.name != name && !hasResult(w.Job)
	})
}

// cmpObject returns the first object that is not nil.
func cmpObject(objects ...client.Object) client.Object {
	for _, o := range objects {
		if o != nil {
			return o
		}
	}
	return nil
}

// checkStatus checks a status that Rollcall wrote.
func (o *oracle) checkStatus(before, after lifecycle.Status, known bool) {
	if o.resumedTooEarly {
		return
	}
	o.checkTimeout(before, after)
	o.checkCounts(after)
	o.ended = o.ended || before.Phase.Terminal()
	isKept := after.Reason == gang.ReasonRequestRejected // the phase that the member had
	isEnd := after.Phase.Terminal() && (!known || before.Phase != after.Phase) && !isKept
	switch {
	case isEnd && after.Phase == lifecycle.Failed:
		o.checkFailed(after)
	case isEnd && after.Phase == lifecycle.Succeeded:
		o.checkSucceeded(after)
	}
}

// checkCounts compares the numbers of attempts, restarts and disruptions with what happened.
func (o *oracle) checkCounts(after lifecycle.Status) {
	disruptions := o.disruptions + o.parted
	if attempts := int(after.Restarts + after.Disruptions); attempts > o.failures+disruptions {
		o.violate(extraAttempt, "%d restarts after %d failures and %d disruptions: %s",
			attempts, o.failures, disruptions, after.Message)
	}
	if most := o.failures + disruptions + 2*o.suspended + o.repetitions; int(after.Attempt) > most {
		o.violate(repeatedStart, "attempt %d after %d incidents: %s", after.Attempt, most, after.Message)
	}
	if after.Restarts > o.scenario.MaxRestarts || int(after.Disruptions) > o.mostDisruptions() {
		o.violate(limitExceeded, "%d restarts, %d disruptions: %s", after.Restarts, after.Disruptions, after.Message)
	}
	if int(after.Disruptions) > disruptions {
		o.violate(failureForgiven, "%d disruptions after %d: %s", after.Disruptions, disruptions, after.Message)
	}
	if int(after.Restarts) > o.failures {
		o.violate(disruptionCounted, "%d restarts after %d failures: %s", after.Restarts, o.failures, after.Message)
	}
}

// mostDisruptions returns the number of disruptions after which the gang restarts.
func (o *oracle) mostDisruptions() int {
	if most, err := strconv.Atoi(o.scenario.MaxDisruptions); err == nil {
		return most
	}
	return math.MaxInt
}

// checkTimeout checks that a timeout did not expire too early. A start timeout that expired is a failure, and a
// schedule timeout a disruption.
func (o *oracle) checkTimeout(before, after lifecycle.Status) {
	f := after.FirstFailure
	isKept := after.Reason == gang.ReasonRequestRejected // the failure that the member had
	isOfOther := before.FirstFailure != nil && f != nil && before.FirstFailure.Time.Equal(f.Time)
	if f == nil || isKept || isOfOther {
		return
	}
	var timeout time.Duration
	since := o.resumed
	switch f.Reason {
	case failure.ReasonStartTimeout:
		timeout = o.scenario.StartTimeout
		if o.created.After(since) {
			since = o.created
		}
		o.failures++
	case failure.ReasonScheduleTimeout:
		o.disruptions++
		if !o.startedApart { // others than Rollcall started the ranks before
			timeout = o.scenario.ScheduleTimeout
		}
	default:
		return
	}
	if passed := o.now.Sub(since); passed < timeout-5*time.Second {
		o.violate(timeoutTooEarly, "the ranks had %s: %s", passed, after.Message)
	}
}

// checkFailed checks that a gang that Rollcall failed had no restart left.
func (o *oracle) checkFailed(after lifecycle.Status) {
	switch {
	case o.now.Sub(o.successTime) < 10*time.Second:
		o.violate(failedTooEarly, "%s after the success of the master: %s", o.now.Sub(o.successTime), after.Message)
	case o.completed.Len() > 0 && !o.scenario.ObservesDrains: // docs/tasks/configure-completion.md
	case o.scenario.NonRetriable == anyExitCode && o.failures > 0:
	case o.nonRetriable, o.startedApart && o.ended, o.scenario.ActiveDeadline > 0, o.peersTimedOut:
	case o.scenario.RestartPolicy == string(gang.RestartPolicyNever) && o.failures+o.disruptions+o.parted > 0:
	case o.failures > int(o.scenario.MaxRestarts), o.disruptions+o.parted > o.mostDisruptions():
	default:
		o.violate(failedTooEarly, "after %d failures and %d disruptions with %d restarts permitted: %s",
			o.failures, o.disruptions, o.scenario.MaxRestarts, after.Message)
	}
}

// checkStart checks that a starting rank finds no earlier attempt.
func (o *oracle) checkStart(started *process, live []*process) {
	if !o.isOfGang(started.pod) {
		return
	}
	if workload := started.pod.OwnerReferences[0].Name; started.restarts == 0 && o.succeeded[workload] != nil {
		o.succeeded[workload].Delete(gang.PodIndex(started.pod)) // it runs again
	}
	o.checkNames(started)
	if o.mayOverlap() {
		return
	}
	o.checkNode(started)
	for _, other := range live {
		// Rollcall cannot end a process on a lost node, and waits for it only if the user requires that.
		isZombie := !o.scenario.WaitsForLostNodes && (other.node.lost || other.startTime.Before(other.node.lostTime))
		if o.isOfGang(other.pod) && !isZombie && areOfDifferentAttempts(started.pod, other.pod) {
			o.violate(attemptsOverlap, "%s of attempt %s starts while %s of attempt %s runs",
				started.pod.Name, attemptOf(started.pod), other.pod.Name, attemptOf(other.pod))
		}
	}
}

// checkNode checks that a starting rank is not on an avoided node.
func (o *oracle) checkNode(started *process) {
	attempt := attemptOf(started.pod) // empty for a StatefulSet
	isCurrent := attempt == "" || attempt == strconv.Itoa(int(o.final.Attempt))
	if isCurrent && o.final.Phase.Active() && slices.Contains(o.final.AvoidedNodes(), started.node.name) {
		o.violate(avoidedNode, "%s starts on %s", started.pod.Name, started.node.name)
	}
}

// isOfGang reports whether a pod belongs to the gang, and not to a stranger.
func (o *oracle) isOfGang(pod *corev1.Pod) bool {
	return gangOf(pod) == gangName && !o.strangers.Has(controllerOf(pod))
}

// mayOverlap reports whether somebody else than Rollcall started pods next to those of an earlier attempt.
func (o *oracle) mayOverlap() bool { return o.resumedTooEarly || o.startedApart }

// countWrite counts an accepted write of Rollcall. Two leaders whose caches differ may correct each other until the
// former notices.
func (o *oracle) countWrite(kind) {
	if len(o.simulation.leaders()) > 1 {
		return
	}
	o.writes++
	attempts := 1 + o.failures + o.disruptions + o.parted + o.suspended + o.leaders + o.resizes + o.repetitions
	if budget := 30 + 14*len(o.scenario.members())*attempts; o.writes > budget {
		o.violate(tooManyWrites, "%d writes, budget %d", o.writes, budget)
	}
}
