package jobset

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/migrate/source"
)

// freeRestart is the reaction of a gang to a disruption.
const freeRestart = "restart of all ranks, which uses up no restart"

// convertPodFailurePolicy converts the podFailurePolicy of a role. A JobSet that restarts after disruptions lets them
// fail a Job, because only the reason PodFailurePolicy of a failed Job distinguishes them from other failures. A gang
// restarts after disruptions itself, and a failed Job would end it.
func (s *Reader) convertPodFailurePolicy(j *ReplicatedJob) *batchv1.PodFailurePolicy {
	policy := j.Template.Spec.PodFailurePolicy
	field := j.Source.At("template", "spec", "podFailurePolicy")
	if policy == nil {
		return nil
	}
	isFatal := s.failsByPodFailurePolicy(j)
	hasDisruptionRule, hasOtherFailure := hasFailRules(policy)
	switch {
	case hasOtherFailure && !isFatal:
		field.MarkChanged("spec.podFailurePolicy", "a Job that failed by it restarted the set; now it fails the gang",
			"remove the rules with the action FailJob if the gang must restart")
	case !hasDisruptionRule || isFatal:
		field.MarkPreserved("spec.podFailurePolicy")
	case ignoresMaxRestarts(s.findPodFailurePolicyAction(j)):
		field.MarkPreserved(freeRestart)
	default:
		field.MarkChanged(freeRestart, "a disruption failed the Job, and the restart of the set counted", "")
	}
	if isFatal {
		return policy
	}
	return ignoreDisruptions(policy)
}

// ignoreDisruptions returns the policy with Ignore instead of FailJob for disruptions; nil if no other rule remains.
func ignoreDisruptions(policy *batchv1.PodFailurePolicy) *batchv1.PodFailurePolicy {
	if !slices.ContainsFunc(policy.Rules, func(r batchv1.PodFailurePolicyRule) bool { return !isDisruptionRule(r) }) {
		return nil
	}
	ignoring := policy.DeepCopy()
	for i, r := range ignoring.Rules {
		if isDisruptionRule(r) {
			ignoring.Rules[i].Action = batchv1.PodFailurePolicyActionIgnore
		}
	}
	return ignoring
}

// isDisruptionRule reports whether a rule fails the Job after disruptions, and only after disruptions.
func isDisruptionRule(r batchv1.PodFailurePolicyRule) bool {
	isOther := func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool { return p.Type != corev1.DisruptionTarget }
	return r.Action == batchv1.PodFailurePolicyActionFailJob &&
		len(r.OnPodConditions) > 0 && !slices.ContainsFunc(r.OnPodConditions, isOther)
}

// hasFailRules reports whether a policy, which may be nil, fails the Job after disruptions and after other failures.
func hasFailRules(policy *batchv1.PodFailurePolicy) (disruptions, others bool) {
	for _, r := range ptr.Deref(policy, batchv1.PodFailurePolicy{}).Rules {
		isDisruption := isDisruptionRule(r)
		disruptions = disruptions || isDisruption
		others = others || !isDisruption && r.Action == batchv1.PodFailurePolicyActionFailJob
	}
	return disruptions, others
}

// exemptsDisruptions reports whether a rule of the failure policy restarts the set without a limit after disruptions,
// and only after disruptions.
func (s *Reader) exemptsDisruptions(rule source.Field) bool {
	isOnlyReason := slices.Equal(rule.Get("onJobFailureReasons").Strings(), []string{batchv1.JobReasonPodFailurePolicy})
	if !isOnlyReason || len(rule.Get("onJobFailureMessagePatterns").Items()) > 0 ||
		!ignoresMaxRestarts(rule.Get("action").String()) {
		return false
	}
	hasDisruptionRule := false
	for _, j := range s.listGangJobs() {
		if !matches(rule.Get("targetReplicatedJobs"), j.Name) {
			continue
		}
		disruptions, others := hasFailRules(j.Template.Spec.PodFailurePolicy)
		if others {
			return false
		}
		hasDisruptionRule = hasDisruptionRule || disruptions
	}
	return hasDisruptionRule
}

// targetsAllJobs reports whether a rule of the failure policy applies to all jobs of the gang.
func (s *Reader) targetsAllJobs(rule source.Field) bool {
	return !slices.ContainsFunc(s.listGangJobs(), func(j *ReplicatedJob) bool {
		return !matches(rule.Get("targetReplicatedJobs"), j.Name)
	})
}

// failsByPodFailurePolicy reports whether the set failed when a Job failed by its podFailurePolicy.
func (s *Reader) failsByPodFailurePolicy(j *ReplicatedJob) bool {
	canRestart := ptr.Deref(s.Spec.Get("failurePolicy").Get("maxRestarts").Int32(), 0) > 0
	action := s.findPodFailurePolicyAction(j)
	return action == "FailJobSet" || !canRestart && !ignoresMaxRestarts(action)
}

// findPodFailurePolicyAction returns the action of the set when a Job failed by its podFailurePolicy; empty for the
// default. The first rule that applies decides. A rule with patterns of messages may not apply.
func (s *Reader) findPodFailurePolicyAction(j *ReplicatedJob) string {
	for _, rule := range s.Spec.Get("failurePolicy").Get("rules").Items() {
		if matches(rule.Get("onJobFailureReasons"), batchv1.JobReasonPodFailurePolicy) &&
			matches(rule.Get("targetReplicatedJobs"), j.Name) && len(rule.Get("onJobFailureMessagePatterns").Items()) == 0 {
			return rule.Get("action").String()
		}
	}
	return ""
}

// matches reports whether a list of a rule contains the value. An empty list contains all values.
func matches(list source.Field, value string) bool {
	return len(list.Items()) == 0 || slices.Contains(list.Strings(), value)
}

// ignoresMaxRestarts reports whether the restarts by an action of a rule do not count.
func ignoresMaxRestarts(action string) bool { return strings.HasSuffix(action, "IgnoreMaxRestarts") }
