package jobset

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// convertSuccessPolicy converts the jobs whose success completes the JobSet. The default is all jobs.
func (s *Reader) convertSuccessPolicy() {
	policy := s.Spec.Get("successPolicy")
	roles := s.listRoles()
	policy.ReportUnreadExcept("operator", "targetReplicatedJobs")
	targets, hasOutsiders := s.resolveTargetRoles(policy.Get("targetReplicatedJobs"))
	switch operator := policy.Get("operator"); operator.String() {
	case "", "All":
	case "Any":
		if !s.hasSingleTargetJob(targets, hasOutsiders) {
			policy.MarkChanged("the success of all ranks",
				"the first Job that succeeded completed the set; one role or all ranks complete a gang",
				"set "+gang.AnnotationSuccessPolicy+" to the role that completes the gang, or to rank0")
			return
		}
	default:
		operator.MarkInvalid("must be All or Any")
		return
	}
	s.requireTargets(policy, targets, roles, hasOutsiders)
}

// hasSingleTargetJob reports whether the policy covers only one Job.
func (s *Reader) hasSingleTargetJob(targets []string, hasOutsiders bool) bool {
	if len(s.Jobs) == 1 && s.Jobs[0].Replicas == 1 {
		return true
	}
	if len(targets) != 1 || hasOutsiders {
		return false
	}
	jobs := int32(0)
	for _, j := range s.listGangJobs() {
		if j.Role == targets[0] {
			jobs += j.Replicas
		}
	}
	return jobs == 1
}

// requireTargets converts a policy that requires the success of all jobs with the target roles. No
// targets mean all jobs.
func (s *Reader) requireTargets(policy source.Field, targets, roles []string, hasOutsiders bool) {
	const to = "annotation " + gang.AnnotationSuccessPolicy
	switch {
	case hasOutsiders && len(targets) == 0:
		policy.MarkDropped("a Job outside the gang cannot complete the gang", "let the ranks exit when they are done")
	case hasOutsiders:
		s.setSuccessPolicy(targets, roles)
		policy.MarkChanged(to, "only the ranks complete the gang; Jobs outside the gang complete separately", "")
	case len(targets) == 0 || len(targets) == len(roles):
		// The success of a launcher includes that of its hosts. With any roles, all is the default.
		if len(roles) > 1 && !s.hasLauncher() && !s.framework().AnyRoles {
			s.Gang.SetAnnotation(gang.AnnotationSuccessPolicy, gang.SuccessPolicyAll)
		}
		policy.MarkPreserved("the success of all ranks")
	case len(targets) == 1:
		s.setSuccessPolicy(targets, roles)
		policy.MarkPreserved(to)
	default:
		s.setSuccessPolicy(targets, roles)
		policy.MarkChanged(to+": all", "one role or all roles complete a gang", "")
	}
}

// setSuccessPolicy sets the annotation for the target roles.
func (s *Reader) setSuccessPolicy(targets, roles []string) {
	switch {
	case len(roles) < 2:
	case len(targets) > 1:
		s.Gang.SetAnnotation(gang.AnnotationSuccessPolicy, gang.SuccessPolicyAll)
	case targets[0] != gang.RoleLauncher || !s.hasLauncher(): // the default of gangs with a launcher
		s.Gang.SetAnnotation(gang.AnnotationSuccessPolicy, targets[0])
	}
}

// resolveTargetRoles returns the roles of the listed jobs, and whether the list has jobs outside the
// gang.
func (s *Reader) resolveTargetRoles(list source.Field) (roles []string, hasOutsiders bool) {
	for _, item := range list.Items() {
		j := s.FindJob(item.String())
		switch {
		case j == nil:
			item.MarkInvalid("must be the name of a replicated job that has pods")
		case j.Role == "":
			hasOutsiders = true
		case !slices.Contains(roles, j.Role):
			roles = append(roles, j.Role)
		}
	}
	return roles, hasOutsiders
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
	switch host := s.resolveCoordinator(); {
	case host == "":
		field.MarkInvalid("must name an existing pod")
	case s.isRank0Host(host):
		field.MarkPreserved("rank 0, the address of the rendezvous: " + host)
	default:
		field.MarkChanged("the value of variables that read it: "+host, "the ranks connect to rank 0", "")
	}
}

// retryAdvice is the action for a program that starts before another program is ready.
const retryAdvice = "let the program retry until it is"

// convertStartupOrder converts startupPolicy and dependsOn. All roles of a gang start together.
func (s *Reader) convertStartupOrder() {
	policy := s.Spec.Get("startupPolicy")
	policy.ReportUnreadExcept("startupPolicyOrder")
	const together = "all roles start together"
	hasRendezvous := !s.framework().AnyRoles
	switch order := policy.Get("startupPolicyOrder"); order.String() {
	case "", "AnyOrder":
		policy.MarkPreserved(together)
	case "InOrder":
		if hasRendezvous {
			policy.MarkChanged(together,
				"a launcher waits for its hosts, and other ranks wait for each other in the rendezvous", "")
		} else {
			policy.MarkChanged(together, "a program can start before another role is ready", retryAdvice)
		}
	default:
		order.MarkInvalid("must be AnyOrder or InOrder")
	}
	for _, j := range s.Jobs {
		for _, d := range j.dependencies {
			on := s.FindJob(d.name)
			switch {
			case d.requiresCompletion && on.Role == "":
				d.field.MarkDropped("Rollcall does not delay a workload until a Job is complete", on.completionAdvice())
			case d.requiresCompletion:
				d.field.MarkDropped("the other job is a role of the gang, and "+together, "let the program wait for the other role")
			case on.Role == "" || j.Role == "":
				d.field.MarkDropped("Rollcall does not delay a workload until another one is ready", retryAdvice)
			case s.hasLauncher() && j.Role == gang.RoleLauncher:
				d.field.MarkPreserved("the launcher waits for all hosts")
			case !hasRendezvous:
				d.field.MarkChanged(together, "the program can start before the other role is ready", retryAdvice)
			default:
				d.field.MarkChanged(together, "ranks wait for each other in the rendezvous", "")
			}
		}
	}
}

// completionAdvice describes how to start other workloads after a job outside the gang is complete.
func (j *ReplicatedJob) completionAdvice() string {
	names := make([]string, 0, j.Replicas)
	for i := range min(j.Replicas, maxStandaloneJobs) {
		names = append(names, "job/"+j.jobName(i))
	}
	return fmt.Sprintf(
		"apply %s first, run kubectl wait --for=condition=Complete --timeout=1h %s, and then apply the other workloads",
		strings.Join(names, ", "), strings.Join(names, " "))
}
