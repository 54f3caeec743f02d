package jobset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// convertFailurePolicy converts the reaction of the JobSet to a failed Job.
func (s *Reader) convertFailurePolicy() {
	policy := s.Spec.Get("failurePolicy")
	limit, rules := policy.Get("maxRestarts"), policy.Get("rules").Items()
	restarts := ptr.Deref(limit.Int32(), 0)
	if restarts < 0 {
		limit.MarkInvalid("must not be negative")
	}
	unconditional := slices.IndexFunc(rules, func(rule source.Field) bool { return !isConditional(rule) })
	failsOtherwise := unconditional >= 0 && rules[unconditional].Get("action").String() == "FailJobSet"
	switch {
	case failsOtherwise && slices.ContainsFunc(rules[:unconditional], s.exemptsDisruptions):
		s.Gang.SetAnnotation(gang.AnnotationMaxRestarts, "0")
		limit.MarkLeftOut("only disruptions restart the gang")
	case failsOtherwise:
		s.Gang.SetAnnotation(gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))
		limit.MarkLeftOut("the gang never restarts")
	case policy.Exists():
		s.Gang.SetAnnotation(gang.AnnotationMaxRestarts, strconv.Itoa(int(min(restarts, gang.MaxRestarts))))
		limit.MarkPreserved("annotation " + gang.AnnotationMaxRestarts)
	}
	switch strategy := policy.Get("restartStrategy"); strategy.String() {
	case "":
	case "Recreate", "BlockingRecreate":
		strategy.MarkPreserved("new ranks start after the old ones are deleted")
	case "InPlaceRestart":
		strategy.MarkChanged("restart of all ranks", "Rollcall recreates the pods instead of restarting their containers",
			"remove the agent that restarts containers from the template, because it waits for JobSet")
	default:
		strategy.MarkInvalid("must be Recreate, BlockingRecreate or InPlaceRestart")
	}
	s.convertFailureRules(rules, unconditional, failsOtherwise)
	s.convertBackoffLimits(policy.Exists())
}

// convertFailureRules converts the rules of the failure policy. The index of the first rule without a condition is
// negative if there is no such rule, and failsOtherwise is true if that rule fails the set.
func (s *Reader) convertFailureRules(rules []source.Field, unconditional int, failsOtherwise bool) {
	for i, rule := range rules {
		switch isRestart := strings.HasPrefix(rule.Get("action").String(), "Restart"); {
		case unconditional >= 0 && i > unconditional:
			rule.MarkLeftOut("an earlier rule applies to every failure")
		case isRestart && failsOtherwise && !s.exemptsDisruptions(rule) && !s.Gang.NeverRestarts():
			rule.MarkDropped("a later rule fails the gang after all other failures, and only disruptions restart such a gang",
				"increase "+gang.AnnotationMaxRestarts+" to restart after every failure")
		case isRestart && s.Gang.NeverRestarts():
			rule.MarkDropped("a later rule fails the gang after all other failures, and such a gang never restarts",
				"set "+gang.AnnotationRestartPolicy+": gang to restart after every failure")
		default:
			s.convertFailureRule(rule)
		}
	}
}

// restart is the reaction of a gang to a failure.
const restart = "restart of all ranks"

// convertFailureRule converts a rule of the failure policy.
func (s *Reader) convertFailureRule(rule source.Field) {
	hasCondition, hasTargets := isConditional(rule), len(rule.Get("targetReplicatedJobs").Items()) > 0
	reasons, patterns := rule.Get("onJobFailureReasons").Strings(), rule.Get("onJobFailureMessagePatterns").Items()
	isPodFailurePolicy := slices.Equal(reasons, []string{batchv1.JobReasonPodFailurePolicy}) && len(patterns) == 0
	rule.Get("name").MarkHandled()
	rule.ReportUnreadExcept("name", "action", "onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs")
	switch action := rule.Get("action").String(); {
	case action == "FailJobSet" && !hasCondition:
		s.convertFailAlways(rule)
	case action == "FailJobSet" && isPodFailurePolicy && hasTargets:
		rule.MarkChanged("spec.podFailurePolicy", "a Job that fails by it fails the gang, also if it is not a target",
			"remove the rules with the action FailJob from all other jobs")
	case action == "FailJobSet" && isPodFailurePolicy:
		rule.MarkPreserved("spec.podFailurePolicy: a Job that fails by it fails the gang")
	case action == "RestartJobSet" && !hasCondition:
		rule.MarkPreserved(restart)
	case ignoresMaxRestarts(action) || action == "RestartJob":
		s.convertRestartRule(rule)
	default:
		rule.MarkDropped("the reason of a Job's failure has no effect on the gang, except for podFailurePolicy",
			"for failures without a restart, add a podFailurePolicy rule with the action FailJob")
	}
}

// convertFailAlways converts a rule that fails the JobSet after each failure.
func (s *Reader) convertFailAlways(rule source.Field) {
	if s.Gang.NeverRestarts() {
		rule.MarkPreserved("annotation " + gang.AnnotationRestartPolicy + ": never")
		return
	}
	rule.MarkPreserved("annotation " + gang.AnnotationMaxRestarts + ": 0: only disruptions restart the gang")
}

// convertRestartRule converts a rule that restarts one Job, or that ignores the limit of restarts.
func (s *Reader) convertRestartRule(rule source.Field) {
	to, isForDisruptions := restart, s.exemptsDisruptions(rule)
	if isForDisruptions {
		to = freeRestart
	}
	switch isOfJob := rule.Get("action").String() != "RestartJobSetAndIgnoreMaxRestarts"; {
	case isOfJob:
		rule.MarkChanged(to, "ranks cannot continue without a rank that restarts", "")
	case !isForDisruptions:
		rule.MarkChanged(to, "only disruptions use up no restart; after another failure, the restart counts",
			"increase "+gang.AnnotationMaxRestarts)
	case !s.targetsAllJobs(rule):
		rule.MarkChanged(to, "disruptions of jobs that are not targets use up no restart either", "")
	default:
		rule.MarkPreserved(to)
	}
}

// isConditional reports whether a rule of the failure policy applies only to some failures.
func isConditional(rule source.Field) bool {
	return slices.ContainsFunc([]string{"onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs"},
		func(name string) bool { return len(rule.Get(name).Items()) > 0 })
}

// convertBackoffLimits converts the number of times that a Job restarts its pods separately.
func (s *Reader) convertBackoffLimits(hasPolicy bool) {
	const to = "annotation " + gang.AnnotationMaxRestarts
	for _, j := range s.listGangJobs() {
		limit, field := j.Template.Spec.BackoffLimit, j.Source.At("template", "spec", "backoffLimit")
		switch {
		case limit == nil && hasPolicy:
		case limit == nil:
			j.podTemplateField().AddNoteOnAllJobs(source.TopicFailedPods,
				fmt.Sprintf("the Job restarted only the pod that failed, up to 6 times; "+
					"now all ranks restart together, up to %d times", gang.DefaultMaxRestarts),
				"set "+gang.AnnotationMaxRestarts+" on the new workload for another number")
		case *limit == 0 && hasPolicy:
			field.MarkPreserved("each failure restarts the gang: " + to)
		case hasPolicy:
			field.MarkChanged(to,
				"the Job restarted its pods this often before the set restarted; now each failure restarts the gang",
				"increase "+gang.AnnotationMaxRestarts+" if it is too low")
		default:
			have, _ := strconv.Atoi(s.Gang.RollcallAnnotations[gang.AnnotationMaxRestarts])
			restarts := max(have, int(min(max(*limit, 0), gang.MaxRestarts)))
			s.Gang.SetAnnotation(gang.AnnotationMaxRestarts, strconv.Itoa(restarts))
			if *limit == 0 {
				field.MarkPreserved(to + ": the first failure fails the gang")
				continue
			}
			field.MarkChanged(to, "the Job restarted only the pod that failed; now all ranks restart together", "")
		}
	}
}

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
