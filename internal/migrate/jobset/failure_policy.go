package jobset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// convertFailurePolicy converts the reaction of the JobSet to a failed Job.
func (s *Reader) convertFailurePolicy() {
	policy := s.Spec.Get("failurePolicy")
	if len(s.listRoles()) == 0 {
		policy.MarkDropped("there is no gang that restarts, and each Job has its own backoffLimit", "")
		return
	}
	limit := policy.Get("maxRestarts")
	if policy.Exists() {
		restarts := ptr.Deref(limit.Int32(), 0)
		if restarts < 0 {
			limit.MarkInvalid("must not be negative")
		}
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
	for _, rule := range policy.Get("rules").Items() {
		s.convertFailureRule(rule)
	}
	s.convertBackoffLimits(policy.Exists())
}

// convertFailureRule converts a rule of the failure policy.
func (s *Reader) convertFailureRule(rule source.Field) {
	const restart = "restart of all ranks"
	reasons, patterns := rule.Get("onJobFailureReasons").Strings(), rule.Get("onJobFailureMessagePatterns").Items()
	isConditional := len(reasons) > 0 || len(patterns) > 0 || len(rule.Get("targetReplicatedJobs").Items()) > 0
	isPodFailurePolicy := slices.Equal(reasons, []string{batchv1.JobReasonPodFailurePolicy}) && len(patterns) == 0
	rule.Get("name").MarkHandled()
	rule.ReportUnreadExcept("name", "action", "onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs")
	switch action := rule.Get("action").String(); {
	case action == "FailJobSet" && !isConditional:
		s.Gang.SetAnnotation(gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))
		delete(s.Gang.RollcallAnnotations, gang.AnnotationMaxRestarts)
		rule.MarkPreserved("annotation " + gang.AnnotationRestartPolicy + ": never")
	case action == "FailJobSet" && isPodFailurePolicy:
		rule.MarkPreserved("spec.podFailurePolicy: a Job that fails by it fails the gang")
	case action == "RestartJobSet" && !isConditional:
		rule.MarkPreserved(restart)
	case action == "RestartJob" || action == "RestartJobAndIgnoreMaxRestarts":
		rule.MarkChanged(restart, "ranks cannot continue without a rank that restarts", "")
	case action == "RestartJobSetAndIgnoreMaxRestarts":
		rule.MarkChanged(restart, "each restart counts; ranks that fail together count as one restart",
			"increase "+gang.AnnotationMaxRestarts)
	default:
		rule.MarkDropped("the reason of a Job's failure has no effect on the gang, except for podFailurePolicy",
			"for failures without a restart, add a podFailurePolicy rule with the action FailJob")
	}
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

// recordPodFailurePolicy records the outcome of the podFailurePolicy of a role.
func (s *Reader) recordPodFailurePolicy(j *ReplicatedJob) {
	policy := j.Template.Spec.PodFailurePolicy
	field := j.Source.At("template", "spec", "podFailurePolicy")
	if policy == nil {
		return
	}
	failsJob := slices.ContainsFunc(policy.Rules, func(r batchv1.PodFailurePolicyRule) bool {
		return r.Action == batchv1.PodFailurePolicyActionFailJob
	})
	failsJobSet := slices.ContainsFunc(s.Spec.At("failurePolicy", "rules").Items(), func(r source.Field) bool {
		return strings.HasPrefix(r.Get("action").String(), "FailJobSet")
	})
	if failsJob && !failsJobSet && ptr.Deref(s.Spec.At("failurePolicy", "maxRestarts").Int32(), 0) > 0 {
		field.MarkChanged("spec.podFailurePolicy", "a Job that failed by it restarted the set; now it fails the gang",
			"remove the rules with the action FailJob if the gang must restart")
		return
	}
	field.MarkPreserved("spec.podFailurePolicy")
}
