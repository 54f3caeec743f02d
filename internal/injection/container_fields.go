package injection

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"rollcall.training/plan"
)

func (c *container) readRestartRules(string) any {
	if c.RestartPolicy == nil {
		return nil
	}
	return containerRestart{c.RestartPolicy, c.RestartPolicyRules}
}

func (c *container) removeRestartRules(string) { c.RestartPolicy, c.RestartPolicyRules = nil, nil }

// containerRestart is the restart policy and the rules of a container.
type containerRestart struct {
	Policy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
	Rules  []corev1.ContainerRestartRule  `json:"restartPolicyRules"`
}

// applyContainerFields sets the fields of training containers that every gang needs.
func (a *applier) applyContainerFields() {
	var codes []int32 // for which containers do not restart in place; nil if they never do
	if a.workload.Job != nil && a.plan.RestartInPlace {
		codes = findExitCodesWithoutRestart(a.workload.Job)
	}
	hasLimitOfUser := codes != nil && a.hasLimitOfUser(a.workload.Job)
	for _, c := range a.trainingContainers() {
		a.applyProbe(c, probeLiveness, a.plan.LivenessProbe)
		a.applyProbe(c, probeReadiness, a.plan.ReadinessProbe)
		if codes != nil && (hasLimitOfUser || a.hasStallProbe(c)) {
			a.applyRestartRules(c, codes)
		}
		a.applyMessagePolicy(c)
	}
}

// applyRestartRules restarts failed training containers within their pods (KEP-5307, enabled by
// default since Kubernetes 1.35), so that the pods do not fail and do not count toward a limit of the user.
// A container that restarts delays the restart of its gang: a program that has just started ignores SIGTERM
// as process 1, so its pod terminates only after the grace period. So containers without such a limit have no
// rules. A container with a policy of the user is not changed.
func (a *applier) applyRestartRules(c *container, exitCodesWithoutRestart []int32) {
	exists := c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0
	if decide(relate(exists, a.owns(KindRestartRules, c.Name, ""), false), plan.KeepUser) != write {
		return
	}
	c.RestartPolicy = ptr.To(a.chooseRestartPolicy(c, exitCodesWithoutRestart))
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpNotIn, Values: exitCodesWithoutRestart,
		},
	}}
	a.markApplied(KindRestartRules, c.Name, "")
}

// chooseRestartPolicy returns the restart policy of a container with restart rules. If a liveness probe fails, the
// kubelet evaluates only the policy (kubernetes pkg/kubelet/kuberuntime, computePodActions). With Never, it terminates
// the whole pod and ignores the grace period of the probe. OnFailure has the same meaning as a rule that excludes only
// the exit code 0.
func (a *applier) chooseRestartPolicy(c *container, exitCodesWithoutRestart []int32) corev1.ContainerRestartPolicy {
	if a.hasStallProbe(c) && slices.Equal(exitCodesWithoutRestart, []int32{0}) {
		return corev1.ContainerRestartPolicyOnFailure
	}
	return corev1.ContainerRestartPolicyNever
}

// hasStallProbe reports whether a container has the liveness probe of the plan.
func (a *applier) hasStallProbe(c *container) bool {
	return a.plan.LivenessProbe != nil && equality.Semantic.DeepEqual(c.LivenessProbe, a.plan.LivenessProbe)
}

// findExitCodesWithoutRestart returns the exit codes for which a container must not restart in place:
// 0, and the codes in the Job's podFailurePolicy, which applies only to failed pods. It returns nil
// if containers must never restart in place: the podFailurePolicy excludes codes instead of listing
// them, there are too many codes, or the kubelet restarts the containers anyway.
func findExitCodesWithoutRestart(job *batchv1.Job) []int32 {
	if job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		return nil
	}
	codes := []int32{0}
	if policy := job.Spec.PodFailurePolicy; policy != nil {
		for _, rule := range policy.Rules {
			if rule.OnExitCodes == nil {
				continue
			}
			if rule.OnExitCodes.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn {
				return nil
			}
			codes = append(codes, rule.OnExitCodes.Values...)
		}
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	const maxCodes = 255 // of a restart rule
	if len(codes) > maxCodes {
		return nil
	}
	return codes
}

func (c *container) readMessagePolicy(string) any { return c.TerminationMessagePolicy }

func (c *container) removeMessagePolicy(string) {
	c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
}

// applyMessagePolicy makes the kubelet keep the end of a failed container's log as its termination message.
// Otherwise the log is lost with the pod. A policy "File" is replaced: it is the default of the API server, so a
// value of the user cannot be distinguished.
func (a *applier) applyMessagePolicy(c *container) {
	exists := c.TerminationMessagePolicy != "" && c.TerminationMessagePolicy != corev1.TerminationMessageReadFile
	if decide(relate(exists, a.owns(kindTerminationMessagePolicy, c.Name, ""), false), plan.KeepUser) == write {
		c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		a.markApplied(kindTerminationMessagePolicy, c.Name, "")
	}
}
