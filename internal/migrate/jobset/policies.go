package jobset

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// convertSuccessPolicy converts the jobs whose success completes the JobSet. The default is all jobs.
func (s *Reader) convertSuccessPolicy() {
	const to = "annotation " + gang.AnnotationSuccessPolicy
	policy, roles := s.Spec.Get("successPolicy"), s.listRoles()
	policy.ReportUnreadExcept("operator", "targetReplicatedJobs")
	var targets []string
	jobs, hasOutsiders := int32(0), false
	for _, item := range policy.Get("targetReplicatedJobs").Items() {
		j := s.FindJob(item.String())
		if j == nil {
			item.MarkInvalid("must be the name of a replicated job that has pods")
			return
		}
		jobs, hasOutsiders = jobs+j.Replicas, hasOutsiders || j.Role == ""
		if !slices.Contains(targets, j.Role) {
			targets = append(targets, j.Role)
		}
	}
	switch isAny := policy.Get("operator").String() == "Any"; {
	case hasOutsiders:
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
	switch host := s.resolveCoordinator(); {
	case host == "":
		field.MarkInvalid("must name an existing pod")
	case s.isRank0Host(host):
		field.MarkPreserved("rank 0, the address of the rendezvous: " + host)
	default:
		field.MarkChanged("the value of variables that read it: "+host, "the ranks connect to rank 0", "")
	}
}

// convertStartupOrder converts startupPolicy and dependsOn. All roles of a gang start together.
func (s *Reader) convertStartupOrder() {
	const together, retry = "all roles start together", "let the program retry until it is"
	policy := s.Spec.Get("startupPolicy")
	policy.ReportUnreadExcept("startupPolicyOrder")
	hasRendezvous := !s.framework().AnyRoles
	switch isOrdered := policy.Get("startupPolicyOrder").String() == "InOrder"; {
	case !isOrdered:
		policy.MarkPreserved(together)
	case hasRendezvous:
		policy.MarkChanged(together, "a launcher waits for its hosts, and other ranks wait for each other in the rendezvous", "")
	default:
		policy.MarkChanged(together, "a program can start before another role is ready", retry)
	}
	for _, j := range s.Jobs {
		for _, d := range j.dependencies {
			on := s.FindJob(d.name)
			switch isRole := on.Role != "" && j.Role != ""; {
			case d.requiresCompletion && on.Role == "":
				d.field.MarkDropped("Rollcall does not delay a workload until a Job is complete", on.completionAdvice())
			case d.requiresCompletion || !isRole:
				d.field.MarkDropped("Rollcall does not delay a workload until another one is ready", retry)
			case !hasRendezvous:
				d.field.MarkChanged(together, "the program can start before the other role is ready", retry)
			case j.Role == gang.RoleLauncher:
				d.field.MarkPreserved("the launcher waits for all hosts")
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
