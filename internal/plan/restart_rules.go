package plan

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

var restartRulesTargets = targetKind{
	planned: (*applier).plannedRestartRulesTargets,
	apply:   (*applier).applyRestartRules,
	recorded: func(r *Record, add func(target, string)) {
		for container, digest := range r.RestartRules {
			add(restartRulesTarget{container}, digest)
		}
	},
}

// restartRulesTarget is the restartPolicy and the restartPolicyRules of a container.
type restartRulesTarget struct{ container string }

func (t restartRulesTarget) currentValue(p *podTemplate) any {
	if c := p.containersByName[t.container]; c != nil && c.RestartPolicy != nil {
		return containerRestart{c.RestartPolicy, c.RestartPolicyRules}
	}
	return nil
}

func (t restartRulesTarget) removeFrom(p *podTemplate) {
	if c := p.containersByName[t.container]; c != nil {
		c.RestartPolicy, c.RestartPolicyRules = nil, nil
	}
}

func (t restartRulesTarget) recordDigest(r *Record, digest string) {
	r.RestartRules.set(t.container, digest)
}

// containerRestart is the value of a restartRulesTarget.
type containerRestart struct {
	Policy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
	Rules  []corev1.ContainerRestartRule  `json:"restartPolicyRules"`
}

func (a *applier) plannedRestartRulesTargets() []target {
	if a.exitCodesWithoutRestart == nil {
		return nil
	}
	return a.forEachTrainingContainer(func(name string) target { return restartRulesTarget{name} })
}

// applyRestartRules restarts failed training containers within their pods (KEP-5307, enabled by
// default since Kubernetes 1.35), so that the pods do not fail. A Job counts failed pods individually
// and delays their replacement by up to 10 minutes. A container with a policy of the user is not
// changed.
func (a *applier) applyRestartRules() {
	if a.exitCodesWithoutRestart == nil {
		return
	}
	rule := corev1.ContainerRestartRule{
		Action: corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpNotIn, Values: a.exitCodesWithoutRestart,
		},
	}
	planned := containerRestart{ptr.To(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{rule}}
	for _, c := range a.trainingContainers() {
		t := restartRulesTarget{c.Name}
		existing := containerRestart{c.RestartPolicy, c.RestartPolicyRules}
		if !a.owned[t] && (existing.Policy != nil || len(existing.Rules) > 0) {
			continue
		}
		if !equality.Semantic.DeepEqual(existing, planned) {
			c.RestartPolicy, c.RestartPolicyRules = planned.Policy, planned.Rules
		}
		a.applied = append(a.applied, t)
	}
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
