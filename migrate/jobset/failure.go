package jobset

import (
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

// maxRestarts is the largest value of the annotation.
const maxRestarts = 1000

// failure carries what becomes of the set when a Job fails.
func (s *Set) failure() {
	n := s.Spec.Get("failurePolicy")
	if len(s.roles()) == 0 {
		n.Lost("there is no gang that restarts: each Job has its own backoffLimit", "")
		return
	}
	limit := n.Get("maxRestarts")
	if n.Exists() {
		v := ptr.Deref(limit.Int32(), 0)
		if v < 0 {
			limit.Invalid("must not be negative")
		}
		s.Blueprint.Keys[gang.AnnotationMaxRestarts] = strconv.Itoa(int(min(v, maxRestarts)))
		limit.Carried("annotation " + gang.AnnotationMaxRestarts)
	}
	switch strategy := n.Get("restartStrategy"); strategy.String() {
	case "":
	case "Recreate", "BlockingRecreate":
		strategy.Carried("the new ranks begin when the old are gone")
	case "InPlaceRestart":
		strategy.Changed("restart of all ranks", "the pods are made anew, not their containers alone", "take the agent that restarts containers in place out of the template: it waits for JobSet")
	default:
		strategy.Invalid("must be Recreate, BlockingRecreate or InPlaceRestart")
	}
	for _, rule := range n.Get("rules").Items() {
		s.rule(rule)
	}
	s.backoff(n.Exists())
}

// rule accounts for one rule of the failure policy.
func (s *Set) rule(n ledger.Node) {
	reasons := n.Get("onJobFailureReasons").Strings()
	conditional := len(reasons) > 0 || len(n.Get("onJobFailureMessagePatterns").Items()) > 0 || len(n.Get("targetReplicatedJobs").Items()) > 0
	n.Get("name").Ignore()
	n.Only("name", "action", "onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs")
	switch action := n.Get("action").String(); {
	case action == "FailJobSet" && !conditional:
		s.Blueprint.Keys[gang.AnnotationRestartPolicy] = string(gang.RestartNever)
		delete(s.Blueprint.Keys, gang.AnnotationMaxRestarts)
		n.Carried("annotation " + gang.AnnotationRestartPolicy + ": never")
	case action == "FailJobSet" && len(reasons) == 1 && reasons[0] == batchv1.JobReasonPodFailurePolicy && len(n.Get("onJobFailureMessagePatterns").Items()) == 0:
		n.Carried("spec.podFailurePolicy: what fails the Job fails the gang for good")
	case action == "RestartJobSet" && !conditional:
		n.Carried("restart of all ranks")
	case action == "RestartJob" || action == "RestartJobAndIgnoreMaxRestarts":
		n.Changed("restart of all ranks", "a gang restarts as one: ranks that met one that is gone cannot go on without it", "")
	case action == "RestartJobSetAndIgnoreMaxRestarts":
		n.Changed("restart of all ranks", "each restart counts; ranks that fall together count once", "raise "+gang.AnnotationMaxRestarts)
	default:
		n.Lost("why a Job failed decides nothing for the gang, except by the Job's podFailurePolicy", "write a rule of podFailurePolicy with the action FailJob for what must not be tried again")
	}
}

// backoff carries how often a Job starts its pods anew by itself.
func (s *Set) backoff(policy bool) {
	for _, j := range s.members() {
		limit := j.Template.Spec.BackoffLimit
		if limit == nil {
			if !policy {
				j.pod().Remark(ledger.Changed, "annotation "+gang.AnnotationRestartPolicy+": gang",
					"when a pod failed it was started anew by itself, up to 6 times, while its peers hung or failed, and then the whole had failed; now all ranks restart together, up to 3 times",
					"set "+gang.AnnotationMaxRestarts+" on the new workload for another number")
			}
			continue
		}
		node := j.Node.At("template", "spec", "backoffLimit")
		switch {
		case *limit == 0 && policy:
			node.Carried("each failure is one of the gang, as annotation " + gang.AnnotationMaxRestarts + " counts them")
		case policy:
			node.Changed("annotation "+gang.AnnotationMaxRestarts,
				"a Job tried this often by itself before the whole set restarted; a gang restarts as one each time, and maxRestarts counts it", "raise "+gang.AnnotationMaxRestarts+" if that is too few")
		default:
			have, _ := strconv.Atoi(s.Blueprint.Keys[gang.AnnotationMaxRestarts])
			s.Blueprint.Keys[gang.AnnotationMaxRestarts] = strconv.Itoa(max(have, int(min(max(*limit, 0), maxRestarts))))
			if *limit == 0 {
				node.Carried("annotation " + gang.AnnotationMaxRestarts + ": the first failure is the end")
				continue
			}
			node.Changed("annotation "+gang.AnnotationMaxRestarts,
				"the Job started the one pod that failed anew, and its peers hung or failed; Rollcall restarts all ranks together, and counts one for each incident", "")
		}
	}
}

// podFailurePolicy accounts for what exit codes mean to a member's Job.
func (s *Set) podFailurePolicy(j *Job) {
	policy := j.Template.Spec.PodFailurePolicy
	n := j.Node.At("template", "spec", "podFailurePolicy")
	if policy == nil {
		return
	}
	final := slices.ContainsFunc(policy.Rules, func(r batchv1.PodFailurePolicyRule) bool { return r.Action == batchv1.PodFailurePolicyActionFailJob })
	told := slices.ContainsFunc(s.Spec.At("failurePolicy", "rules").Items(), func(r ledger.Node) bool {
		return strings.HasPrefix(r.Get("action").String(), "FailJobSet")
	})
	if final && !told && ptr.Deref(s.Spec.At("failurePolicy", "maxRestarts").Int32(), 0) > 0 {
		n.Changed("spec.podFailurePolicy", "a Job that failed by it restarted the set; it fails the gang for good now", "take the rules with FailJob away if the gang shall restart")
		return
	}
	n.Carried("spec.podFailurePolicy")
}
