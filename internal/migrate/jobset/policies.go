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

// convertSuccessPolicy converts the jobs whose success completes the JobSet. The default is all jobs.
func (s *Reader) convertSuccessPolicy() {
	const to = "annotation " + gang.AnnotationSuccessPolicy
	policy, roles := s.Spec.Get("successPolicy"), s.listRoles()
	policy.ReportUnreadExcept("operator", "targetReplicatedJobs")
	var targets []string
	jobs := int32(0)
	for _, item := range policy.Get("targetReplicatedJobs").Items() {
		j := s.FindJob(item.String())
		if j == nil {
			item.MarkInvalid("must be the name of a replicated job that has pods")
			return
		}
		jobs, targets = jobs+j.Replicas, append(targets, j.Role)
	}
	slices.Sort(targets)
	targets = slices.Compact(targets)
	switch isAny := policy.Get("operator").String() == "Any"; {
	case slices.Contains(targets, ""): // the role of a Job outside the gang
		policy.MarkDropped("a Job outside the gang cannot complete the gang",
			"name the role that completes the gang with "+gang.AnnotationSuccessPolicy)
	case isAny && jobs != 1:
		policy.MarkChanged("the success of all ranks",
			"the first Job that succeeded completed the set; one role or all ranks complete a gang",
			"set "+gang.AnnotationSuccessPolicy+" to the role that completes the gang, or to rank0")
	case len(targets) == 1 && len(roles) > 1:
		if targets[0] != gang.RoleLauncher || !s.hasLauncher() { // the default of gangs with a launcher
			s.Gang.SetAnnotation(gang.AnnotationSuccessPolicy, targets[0])
		}
		policy.MarkPreserved(to)
	default:
		// The success of a launcher includes that of its hosts. With any roles, all is the default.
		if len(roles) > 1 && !s.hasLauncher() && !s.framework().AnyRoles {
			s.Gang.SetAnnotation(gang.AnnotationSuccessPolicy, gang.SuccessPolicyAll)
		}
		if len(targets) > 0 && len(targets) < len(roles) {
			policy.MarkChanged(to+": all", "one role or all roles complete a gang", "")
		} else {
			policy.MarkPreserved("the success of all ranks")
		}
	}
}

// resolveCoordinator returns the new hostname of the JobSet's coordinator pod, or "".
func (s *Reader) resolveCoordinator() string {
	field := s.Spec.Get("coordinator")
	j := s.FindJob(field.Get("replicatedJob").String())
	if j == nil {
		return ""
	}
	job, pod := ptr.Deref(field.Get("jobIndex").Int32(), 0), ptr.Deref(field.Get("podIndex").Int32(), 0)
	host, _ := j.mapHost(fmt.Sprint(job), fmt.Sprint(pod))
	if host == "" {
		return ""
	}
	return host + "." + j.serviceOfHost(host)
}

// convertCoordinator converts the coordinator, whose address JobSet writes into a label of all pods.
func (s *Reader) convertCoordinator() {
	field := s.Spec.Get("coordinator")
	if !field.Exists() {
		return
	}
	field.ReportUnreadExcept("replicatedJob", "jobIndex", "podIndex")
	rank0 := s.findJobByRole(s.listRoles()[0])
	switch host := s.resolveCoordinator(); {
	case host == "":
		field.MarkInvalid("must name an existing pod")
	case host == fmt.Sprintf("%s-0.%s", rank0.workloadName, rank0.serviceName):
		field.MarkPreserved("rank 0, the address of the rendezvous: " + host)
	default:
		field.MarkChanged("the value of variables that read it: "+host, "the ranks connect to rank 0", "")
	}
}

// convertStartupOrder converts startupPolicy and dependsOn. All roles of a gang start together.
func (s *Reader) convertStartupOrder() {
	const together, retry = "all roles start together", "let the program retry until it is"
	reason, action := "a launcher waits for its hosts, and other ranks wait for each other in the rendezvous", ""
	if s.framework().AnyRoles {
		reason, action = "a program can start before another role is ready", retry
	}
	policy := s.Spec.Get("startupPolicy")
	policy.ReportUnreadExcept("startupPolicyOrder")
	if policy.Get("startupPolicyOrder").String() == "InOrder" {
		policy.MarkChanged(together, reason, action)
	} else {
		policy.MarkPreserved(together)
	}
	for _, j := range s.Jobs {
		for _, d := range j.dependencies {
			switch on := d.on; {
			case d.requiresCompletion && on.Role == "":
				d.field.MarkDropped("Rollcall does not delay a workload until a Job is complete", fmt.Sprintf("apply %s first, "+
					"and the other workloads after kubectl wait --for=condition=Complete --timeout=1h %[1]s", on.jobNames()))
			case d.requiresCompletion || on.Role == "" || j.Role == "":
				d.field.MarkDropped("Rollcall does not delay a workload until another one is ready", retry)
			case j.Role == gang.RoleLauncher && action == "":
				d.field.MarkPreserved("the launcher waits for all hosts")
			default:
				d.field.MarkChanged(together, reason, action)
			}
		}
	}
}

// convertFailurePolicy converts the reaction of the JobSet to a failed Job. The first rule that matches decides.
func (s *Reader) convertFailurePolicy() {
	policy := s.Spec.Get("failurePolicy")
	limit, rules := policy.Get("maxRestarts"), policy.Get("rules").Items()
	restarts := ptr.Deref(limit.Int32(), 0)
	last := slices.IndexFunc(rules, func(rule source.Field) bool { return !isConditional(rule) })
	switch {
	case last >= 0 && rules[last].Get("action").String() == actionFail:
		s.Gang.SetAnnotation(gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))
		limit.MarkLeftOut("the gang never restarts")
	case policy.Exists():
		s.Gang.SetAnnotation(gang.AnnotationMaxRestarts, strconv.Itoa(int(min(restarts, gang.MaxRestarts))))
		limit.MarkPreserved("annotation " + gang.AnnotationMaxRestarts)
	}
	strategy := policy.Get("restartStrategy")
	if strategy.String() == "InPlaceRestart" {
		strategy.MarkChanged("restart of all ranks", "Rollcall recreates the pods instead of restarting their containers",
			"remove the agent that restarts containers from the template, because it waits for JobSet")
	} else {
		strategy.MarkPreserved("new ranks start after the old ones are deleted")
	}
	for i, rule := range rules {
		if last >= 0 && i > last {
			rule.MarkLeftOut("an earlier rule applies to every failure")
			continue
		}
		s.convertFailureRule(rule)
	}
	s.convertBackoffLimits(policy.Exists())
}

// The actions of a rule, and what a gang does instead.
const (
	actionFail  = "FailJobSet"
	restart     = "restart of all ranks"
	freeRestart = "restart of all ranks, which uses up no restart" // after a disruption
)

// convertFailureRule converts a rule of the failure policy.
func (s *Reader) convertFailureRule(rule source.Field) {
	action, isConditional := rule.Get("action").String(), isConditional(rule)
	rule.Get("name").MarkHandled()
	rule.ReportUnreadExcept("name", "action", "onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs")
	switch {
	case action == actionFail && !isConditional:
		rule.MarkPreserved("annotation " + gang.AnnotationRestartPolicy + ": never")
	case action == actionFail && isForPodFailurePolicy(rule) && len(rule.Get("targetReplicatedJobs").Items()) == 0:
		rule.MarkPreserved("spec.podFailurePolicy: a Job that fails by it fails the gang")
	case strings.HasPrefix(action, "Restart") && s.Gang.NeverRestarts():
		rule.MarkDropped("a later rule fails the gang after all other failures, and such a gang never restarts",
			fmt.Sprintf("replace %s: never by %s: the number of restarts, which is 0 if only disruptions restart the gang",
				gang.AnnotationRestartPolicy, gang.AnnotationMaxRestarts))
	case action == "RestartJobSet" && !isConditional:
		rule.MarkPreserved(restart)
	case slices.Contains([]string{"RestartJob", "RestartJobAndIgnoreMaxRestarts"}, action):
		rule.MarkChanged(restart, "ranks cannot continue without a rank that restarts", "")
	case ignoresMaxRestarts(action) && isForPodFailurePolicy(rule) &&
		!slices.ContainsFunc(s.listGangJobs(), hasOtherFailure):
		rule.MarkPreserved(freeRestart)
	case ignoresMaxRestarts(action):
		rule.MarkChanged(restart, "only disruptions use up no restart; after another failure, the restart counts",
			"increase "+gang.AnnotationMaxRestarts)
	default:
		rule.MarkDropped("the reason of a Job's failure has no effect on the gang, except for podFailurePolicy",
			"for failures without a restart, add a podFailurePolicy rule with the action FailJob")
	}
}

// isConditional reports whether a rule of the failure policy applies only to some failures.
func isConditional(rule source.Field) bool {
	return slices.ContainsFunc([]string{"onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs"},
		func(name string) bool { return len(rule.Get(name).Items()) > 0 })
}

// isForPodFailurePolicy reports whether a rule applies only to Jobs that failed by their podFailurePolicy.
func isForPodFailurePolicy(rule source.Field) bool {
	return slices.Equal(rule.Get("onJobFailureReasons").Strings(), []string{batchv1.JobReasonPodFailurePolicy}) &&
		len(rule.Get("onJobFailureMessagePatterns").Items()) == 0
}

// ignoresMaxRestarts reports whether the restarts by an action of a rule do not count.
func ignoresMaxRestarts(action string) bool { return strings.HasSuffix(action, "IgnoreMaxRestarts") }

// convertBackoffLimits converts the number of times that a Job restarts its pods separately.
func (s *Reader) convertBackoffLimits(hasPolicy bool) {
	const to = "annotation " + gang.AnnotationMaxRestarts
	for _, j := range s.listGangJobs() {
		limit, field := j.Template.Spec.BackoffLimit, j.Source.At("template", "spec", "backoffLimit")
		switch {
		case limit == nil && hasPolicy:
		case limit == nil:
			j.podTemplate.AddNoteOnAllJobs(source.TopicFailedPods,
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

// convertPodFailurePolicy converts the podFailurePolicy of a role. A JobSet that restarts after disruptions lets them
// fail a Job, because only the reason PodFailurePolicy of a failed Job distinguishes them from other failures. A gang
// restarts after disruptions itself, and a failed Job would end it.
func (s *Reader) convertPodFailurePolicy(j *ReplicatedJob) *batchv1.PodFailurePolicy {
	policy, field := j.Template.Spec.PodFailurePolicy, j.Source.At("template", "spec", "podFailurePolicy")
	switch {
	case policy == nil || s.Gang.NeverRestarts() || s.failsByPodFailurePolicy(j):
		field.MarkPreserved("spec.podFailurePolicy")
		return policy
	case hasOtherFailure(j):
		field.MarkChanged("spec.podFailurePolicy", "a Job that failed by it restarted the set; now it fails the gang",
			"remove the rules with the action FailJob if the gang must restart")
	case slices.ContainsFunc(policy.Rules, isDisruptionRule):
		field.MarkChanged(freeRestart, "a disruption failed the Job, and then the set restarted", "")
	default:
		field.MarkPreserved("spec.podFailurePolicy")
	}
	ignoring := policy.DeepCopy()
	for i, r := range ignoring.Rules {
		if isDisruptionRule(r) {
			ignoring.Rules[i].Action = batchv1.PodFailurePolicyActionIgnore
		}
	}
	if !slices.ContainsFunc(policy.Rules, func(r batchv1.PodFailurePolicyRule) bool { return !isDisruptionRule(r) }) {
		return nil
	}
	return ignoring
}

// isDisruptionRule reports whether a rule fails the Job after disruptions, and only after disruptions.
func isDisruptionRule(r batchv1.PodFailurePolicyRule) bool {
	isOther := func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool { return p.Type != corev1.DisruptionTarget }
	return r.Action == batchv1.PodFailurePolicyActionFailJob &&
		len(r.OnPodConditions) > 0 && !slices.ContainsFunc(r.OnPodConditions, isOther)
}

// hasOtherFailure reports whether the podFailurePolicy of a job fails it after failures other than disruptions.
func hasOtherFailure(j *ReplicatedJob) bool {
	policy := ptr.Deref(j.Template.Spec.PodFailurePolicy, batchv1.PodFailurePolicy{})
	return slices.ContainsFunc(policy.Rules, func(r batchv1.PodFailurePolicyRule) bool {
		return r.Action == batchv1.PodFailurePolicyActionFailJob && !isDisruptionRule(r)
	})
}

// failsByPodFailurePolicy reports whether the set failed when a Job failed by its podFailurePolicy. A rule with
// patterns of messages may not apply.
func (s *Reader) failsByPodFailurePolicy(j *ReplicatedJob) bool {
	policy := s.Spec.Get("failurePolicy")
	for _, rule := range policy.Get("rules").Items() {
		if matches(rule.Get("onJobFailureReasons"), batchv1.JobReasonPodFailurePolicy) &&
			matches(rule.Get("targetReplicatedJobs"), j.Name) && len(rule.Get("onJobFailureMessagePatterns").Items()) == 0 {
			if action := rule.Get("action").String(); action == actionFail || ignoresMaxRestarts(action) {
				return action == actionFail
			}
			break
		}
	}
	return ptr.Deref(policy.Get("maxRestarts").Int32(), 0) == 0
}

// matches reports whether a list of a rule contains the value. An empty list contains all values.
func matches(list source.Field, value string) bool {
	return len(list.Items()) == 0 || slices.Contains(list.Strings(), value)
}
