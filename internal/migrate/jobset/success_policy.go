package jobset

import (
	"slices"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// convertSuccessPolicy converts the jobs whose success completes the JobSet. The default is all jobs.
func (s *Reader) convertSuccessPolicy() {
	policy := s.Spec.Get("successPolicy")
	roles := s.listRoles()
	if len(roles) == 0 {
		policy.MarkDropped("there is no gang, and each Job completes separately", "")
		return
	}
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
