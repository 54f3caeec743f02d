package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// obstacleRetryInterval is the interval at which the reconciler looks again at what only somebody else can change: a
// quota or a policy that rejects a request, a conflicting object, and an API that is not installed. No event marks the
// change, because these objects are not watched, which keeps the cache small. A user who corrects one waits for half of
// the interval on average.
const obstacleRetryInterval = 30 * time.Second

// errUpdateRejected skips a member whose change the API server rejected. The pass continues as for
// [errJobStatusReset]. The request is repeated after [obstacleRetryInterval].
var errUpdateRejected = errors.New("the API server rejected a change of the member")

// isRejected reports whether the API server rejected a request because of its content: a quota, an
// admission policy, another webhook or the validation of the API. A retry does not help until somebody
// changes the rule or the object.
func isRejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict, http.StatusRequestTimeout,
		http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// childRejection is the rejection of a child object of a gang. The zero value means that no child was
// rejected.
type childRejection struct {
	problem lifecycle.Status
	// nextTime is when the request is repeated.
	nextTime time.Time
}

// ensureChildrenOrReport creates the children of a gang. If the API server rejects a child, the gang
// gets a message for its status, and the request is repeated later. A suspended gang with pods does not wait, because
// its Service may not select the next attempt yet.
func (r *Reconciler) ensureChildrenOrReport(ctx context.Context, g *observedGang, next lifecycle.State) error {
	s, now := g.pass.session, r.Clock.Now()
	if delay := s.rejection.nextTime.Sub(now); delay > 0 && !g.isSuspendedWithPods(next) {
		g.childProblem = s.rejection.problem
		g.pass.requeueAfter(delay)
		return nil
	}
	err := r.ensureChildren(ctx, g, next)
	if !isRejected(err) {
		s.rejection = childRejection{}
		return err
	}
	log.FromContext(ctx).Info("API server rejected a child object", "error", err.Error())
	g.childProblem = lifecycle.Status{
		Reason: gang.ReasonRequestRejected, Message: rejectionMessage(err, obstacleRetryInterval),
	}
	s.rejection = childRejection{problem: g.childProblem, nextTime: now.Add(obstacleRetryInterval)}
	if !next.Phase.Active() {
		r.recordRejection(g, err, obstacleRetryInterval)
	}
	g.pass.requeueAfter(obstacleRetryInterval)
	return nil
}

// childStatus returns why an active gang does not have all of its children; the zero value if it does.
func (g *observedGang) childStatus(next lifecycle.State) lifecycle.Status {
	if !next.Phase.Active() {
		return lifecycle.Status{}
	}
	return g.childProblem
}

func rejectionMessage(err error, retryInterval time.Duration) string {
	return fmt.Sprintf("The API server rejected a request of Rollcall, which repeats it every %s: %s",
		retryInterval, err)
}

// reportRejectedUpdate reports on a member that the API server rejected a change of its spec. The state
// of the gang stays as it is, because the member is not in the state that the change would have led to.
func (r *Reconciler) reportRejectedUpdate(ctx context.Context, g *observedGang, m member, err error) error {
	log.FromContext(ctx).Info("API server rejected a change of a member", "member", m.Meta().Name, "error", err.Error())
	g.pass.requeueAfter(obstacleRetryInterval)
	last := m.lastStatus()
	if last.Reason == gang.ReasonRequestRejected {
		return errUpdateRejected // messages of quotas contain numbers that change
	}
	status := lifecycle.Status{
		Reason: gang.ReasonRequestRejected, Message: rejectionMessage(err, obstacleRetryInterval), State: g.lastState(),
	}
	status.SuspendedByRollcall, status.MemberNodes = last.SuspendedByRollcall, last.MemberNodes
	if status.LastTransitionTime.IsZero() {
		status.LastTransitionTime = m.admissionTime()
	}
	if err := r.writeStatus(ctx, m.Workload, status); err != nil {
		return err
	}
	r.recordPhaseChange(ctx, m, last, status)
	return errUpdateRejected
}

// recordRejection records a rejected request once as an Event of the gang, if its status cannot contain
// the message: the status itself, or the deletion of pods.
func (r *Reconciler) recordRejection(g *observedGang, err error, retryInterval time.Duration) {
	if isRejected(err) && g.pass.session.recordReport("rejected "+err.Error()) {
		r.recordWarning(g.primaryMember().Workload, gang.ReasonRequestRejected, eventActionUpdatePhase,
			"%s", rejectionMessage(err, retryInterval))
	}
}
