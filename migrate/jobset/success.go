package jobset

import (
	"slices"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

// success carries whose end is the end of the gang. JobSet waits for all Jobs unless it
// is told otherwise; some frameworks have a role that decides.
func (s *Set) success() {
	n := s.Spec.Get("successPolicy")
	roles := s.roles()
	if len(roles) == 0 {
		n.Lost("there is no gang whose end it could be: each Job ends by itself", "")
		return
	}
	n.Only("operator", "targetReplicatedJobs")
	targets, beside := s.targets(n.Get("targetReplicatedJobs"))
	operator := n.Get("operator")
	switch operator.String() {
	case "", "All":
	case "Any":
		if !s.one(targets, beside) {
			n.Changed("the end of all ranks", "the first Job that ended well ended the set; a gang ends with one role or with all ranks",
				"name the role whose end counts with "+gang.AnnotationSuccessPolicy+", or rank0")
			return
		}
	default:
		operator.Invalid("must be All or Any")
		return
	}
	s.all(n, targets, roles, beside)
}

// one reports whether the first Job to end is the only one that is meant.
func (s *Set) one(targets []string, beside bool) bool {
	if len(s.Jobs) == 1 && s.Jobs[0].Replicas == 1 {
		return true
	}
	if len(targets) != 1 || beside {
		return false
	}
	jobs := int32(0)
	for _, j := range s.members() {
		if j.Role == targets[0] {
			jobs += j.Replicas
		}
	}
	return jobs == 1
}

// all carries that all of some roles have to end.
func (s *Set) all(n ledger.Node, targets, roles []string, beside bool) {
	switch {
	case beside && len(targets) == 0:
		n.Lost("what stands beside the gang cannot end it", "let the ranks end by themselves")
	case beside:
		s.decides(targets, roles)
		n.Changed("annotation "+gang.AnnotationSuccessPolicy, "the gang ends by its own ranks; what stands beside it ends by itself", "")
	case len(targets) == 0 || len(targets) == len(roles):
		if len(roles) > 1 && !launches(s.Blueprint.Framework) { // a launcher's end is the end of its hosts
			s.Blueprint.Keys[gang.AnnotationSuccessPolicy] = gang.SuccessAll
		}
		n.Carried("the end of all ranks")
	case len(targets) == 1:
		s.decides(targets, roles)
		n.Carried("annotation " + gang.AnnotationSuccessPolicy)
	default:
		s.decides(targets, roles)
		n.Changed("annotation "+gang.AnnotationSuccessPolicy+": all", "either one role ends the gang, or all do", "")
	}
}

// decides writes down whose end counts.
func (s *Set) decides(targets, roles []string) {
	switch {
	case len(roles) < 2:
	case len(targets) > 1:
		s.Blueprint.Keys[gang.AnnotationSuccessPolicy] = gang.SuccessAll
	case targets[0] != gang.RoleLauncher: // whose end counts anyway
		s.Blueprint.Keys[gang.AnnotationSuccessPolicy] = targets[0]
	}
}

// targets are the roles that a list of replicated jobs names, and whether it names some
// that are no part of the gang.
func (s *Set) targets(n ledger.Node) (roles []string, beside bool) {
	for _, item := range n.Items() {
		j := s.Job(item.String())
		switch {
		case j == nil:
			item.Invalid("must be the name of a replicated job that has pods")
		case j.Role == "":
			beside = true
		case !slices.Contains(roles, j.Role):
			roles = append(roles, j.Role)
		}
	}
	return roles, beside
}
