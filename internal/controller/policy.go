package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/policy"
)

// judgment is the result of comparing a gang with the policy.
type judgment struct {
	// key identifies what was compared. If the key is equal, so is the result.
	key string
	// violation describes the violations in the modes enforce and warn; empty if there are none.
	violation string
	// findings contains each rule that the gang violates once, in any mode.
	findings []memberFinding
}

// violatedRule is a limit or rule that a gang violates.
type violatedRule struct {
	name string
	mode policy.Mode
}

// recordJudgments replaces the judgments of all gangs of a request.
func (s *sessions) recordJudgments(req Request, judgments map[types.UID]judgment) {
	session := s.forRequest(req)
	s.mu.Lock()
	defer s.mu.Unlock()
	session.judgments = judgments
}

// countViolations returns the number of violating gangs by rule.
func (s *sessions) countViolations() map[violatedRule]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := map[violatedRule]int{}
	for _, session := range s.byRequest {
		for _, ofGang := range session.judgments {
			for _, f := range ofGang.findings {
				count[violatedRule{name: f.Rule, mode: f.Mode}]++
			}
		}
	}
	return count
}

// judgeGangs compares the gangs of a request with the policy. Admission has judged each workload. The
// reconciler judges again, because it knows all members, and because the policy can change. It reports
// violations and never stops a gang for them. It returns false if the policy cannot be compared now.
func (r *Reconciler) judgeGangs(ctx context.Context, req Request, gangs []*observedGang) bool {
	current, namespace, err := r.currentPolicy(ctx, req.Namespace)
	if err != nil {
		keepViolations(gangs)
	}
	if current == nil {
		return false
	}
	judged := map[types.UID]judgment{}
	for _, g := range gangs {
		if len(g.Conflicts) > 0 || g.lastState().Phase.Terminal() {
			continue
		}
		uid, key := g.primaryMember().Meta().UID, r.policyKey(current, namespace, g)
		result := g.pass.session.judgments[uid]
		if result.key != key {
			if result, err = r.judgeGang(ctx, current, namespace, g); err != nil {
				g.pass.handleError(err)
				keepViolations(gangs)
				return false
			}
			result.key = key
		}
		judged[uid] = result
		g.judgment = result
	}
	r.sessions.recordJudgments(req, judged)
	return true
}

// currentPolicy returns the policy in force and what it reads of a namespace; nil without a policy. It logs only a
// namespace that cannot be read: the readiness probe reports a policy that cannot.
func (r *Reconciler) currentPolicy(ctx context.Context, namespace string) (*policy.Policy, policy.Namespace, error) {
	if r.Policy == nil {
		return nil, policy.Namespace{}, nil
	}
	current, err := r.Policy.Current()
	if err != nil || current == nil {
		return nil, policy.Namespace{}, err
	}
	described, err := r.Policy.DescribeNamespace(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to read a namespace for the policy")
		return nil, described, err
	}
	return current, described, nil
}

// keepViolations keeps the violations in the status of gangs that cannot be compared with the policy now. A
// manager that starts would otherwise write the status of each violating gang twice.
func keepViolations(gangs []*observedGang) {
	for _, g := range gangs {
		g.violation = g.lastStatusWithReason(gang.ReasonPolicyViolated).Message
	}
}

// policyKey identifies the policy, the members and the day, on which exemptions depend.
func (r *Reconciler) policyKey(current *policy.Policy, namespace policy.Namespace, g *observedGang) string {
	var key strings.Builder
	fmt.Fprint(&key, current.Digest(), r.Clock.Now().UTC().Format(time.DateOnly), namespace.Labels)
	for _, m := range g.Members {
		fmt.Fprint(&key, " ", m.Meta().UID, ":", m.contentDigest)
	}
	return key.String()
}

// maxReportedFindings limits the findings in the status of a gang.
const maxReportedFindings = 5

// judgeGang returns the judgment of one gang. A gang that needs too much memory is not compared.
func (r *Reconciler) judgeGang(
	ctx context.Context, current *policy.Policy, namespace policy.Namespace, g *observedGang,
) (judgment, error) {
	in := policy.Input{Namespace: namespace, Now: r.Clock.Now()}
	var result judgment
	err := useWholes(ctx, g.Members, r.readForPolicy, func(members []member) error {
		for _, m := range members {
			in.Members = append(in.Members, policy.Member{Gang: m.Result.Gang, Workload: m.Workload})
		}
		result = newJudgment(in, current.Judge(in))
		return nil
	})
	if errors.Is(err, errTooMuchMemory) {
		return judgment{violation: "The gang cannot be compared with the policy of the cluster: " + err.Error()}, nil
	}
	return result, err
}

// newJudgment returns the judgment of a gang from those of its members. Each rule is in it once, with the finding of
// the first member that violates it.
func newJudgment(in policy.Input, judgments []policy.Judgment) judgment {
	var result judgment
	var lines []string
	violated := sets.Set[violatedRule]{}
	for i, judged := range judgments {
		member := in.Members[i].Workload
		for _, f := range judged.Findings {
			rule := violatedRule{name: f.Rule, mode: f.Mode}
			if f.Unknown || violated.Has(rule) {
				continue
			}
			violated.Insert(rule)
			f.Value, f.Message = gang.ShortenText(f.Value), gang.ShortenText(f.Message) // they can quote the user
			result.findings = append(result.findings, memberFinding{Finding: f, member: referTo(member)})
			if f.Mode != policy.ModeAudit {
				lines = append(lines, member.Meta().Name+": "+f.String())
			}
		}
	}
	if more := len(lines) - maxReportedFindings; more > 0 {
		lines = append(lines[:maxReportedFindings], fmt.Sprintf("and %d more", more))
	}
	if len(lines) > 0 {
		result.violation = "The gang violates the policy of the cluster: " + strings.Join(lines, "; ")
	}
	return result
}

// policyStatus returns the reason and the message of a gang that violates the policy; the zero value if
// it does not. A gang that ends or restarts has a more important reason.
func (g *observedGang) policyStatus(next lifecycle.State) lifecycle.Status {
	if g.violation == "" || !next.Phase.Active() && next.Phase != lifecycle.Suspended {
		return lifecycle.Status{}
	}
	return lifecycle.Status{Reason: gang.ReasonPolicyViolated, Message: g.violation}
}

// watchPolicy schedules a pass for every gang after the policy changed, and at midnight in UTC if an
// exemption can expire. It has the signature of source.TypedFunc.
func (r *Reconciler) watchPolicy(ctx context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
	changed := r.Policy.Subscribe()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-time.After(r.untilExemptionsExpire()):
			}
			r.requestAllGangs(ctx, queue)
		}
	}()
	return nil
}

// untilExemptionsExpire returns the time until the day changes.
func (r *Reconciler) untilExemptionsExpire() time.Duration {
	const day = 24 * time.Hour
	return r.Clock.Now().UTC().Truncate(day).Add(day + time.Second).Sub(r.Clock.Now())
}

// requestAllGangs schedules a pass for every gang in the cache.
func (r *Reconciler) requestAllGangs(ctx context.Context, queue workqueue.TypedRateLimitingInterface[Request]) {
	workloads, err := r.listMatchingWorkloads(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the gangs after the policy changed")
	}
	requests := r.requestsForWorkloads(ctx, workloads)
	for _, req := range requests {
		queue.Add(req)
	}
	log.FromContext(ctx).Info("Scheduled the comparison of all gangs with the policy", "gangs", len(requests))
}
