package volcano

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// convertSuccess determines the roles whose success completes the gang. In Volcano, policies name the
// tasks, and without such a policy all pods must succeed.
func (r *reader) convertSuccess() {
	f, completing := r.spec.Get("minSuccess"), r.listCompletingRoles()
	minSuccess := f.Int32()
	switch {
	case len(completing) > 0:
		r.setCompletionRole(r.selectCompletionRole(completing))
		f.MarkDropped("a task or a number of pods completes the job, and Rollcall supports only one of the two", "")
	case minSuccess == nil || *minSuccess >= r.podCount:
		f.MarkPreserved("all ranks must succeed")
		r.requireAllRanks()
	default:
		f.MarkDropped("a role or all ranks complete a gang, and not a number of pods",
			"name the role that determines completion with "+gang.AnnotationSuccessPolicy)
		r.requireAllRanks()
	}
}

// listCompletingRoles returns the roles whose completion completes the job.
func (r *reader) listCompletingRoles() []string {
	var roles []string
	for i, t := range r.tasks {
		if r.actionForEvent(t, eventTaskCompleted) == actionCompleteJob {
			roles = append(roles, r.gang.Roles[i].Name)
		}
	}
	return roles
}

// determinesCompletion reports whether the framework completes a gang when the role completes.
func (r *reader) determinesCompletion(role string) bool {
	frameworkRole, _ := r.framework.FindRole(role)
	return frameworkRole.DeterminesCompletion
}

// hasCompletionRole reports whether the gang has a role for which determinesCompletion is true.
func (r *reader) hasCompletionRole() bool {
	return slices.ContainsFunc(r.gang.Roles, func(role ir.Role) bool { return r.determinesCompletion(role.Name) })
}

// requireAllRanks makes all ranks determine completion. The workers of a launcher never finish.
func (r *reader) requireAllRanks() {
	if !r.isSingleWorkload() && !r.framework.HasLauncher && r.hasCompletionRole() {
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, gang.SuccessPolicyAll)
	}
}

// selectCompletionRole returns the role that determines completion: the framework's, or the one with
// rank 0.
func (r *reader) selectCompletionRole(roles []string) string {
	if i := slices.IndexFunc(roles, r.determinesCompletion); i >= 0 {
		return roles[i]
	}
	return roles[0]
}

// setCompletionRole makes the completion of a role complete the gang.
func (r *reader) setCompletionRole(name string) {
	if r.gang.Roles[0].Name != name {
		r.gang.Homogeneous = false // in one workload, only rank 0 can determine completion
	}
	finishing, finishes := 0, false
	for i, role := range r.gang.Roles {
		if role.Name == name {
			r.gang.Roles[i].StatefulSet = false // a StatefulSet does not complete
		}
		if frameworkRole, _ := r.framework.FindRole(role.Name); !frameworkRole.LongRunning {
			finishing++
			finishes = finishes || role.Name == name
		}
	}
	isOnlyFinishingRole := finishes && finishing == 1 && !r.hasCompletionRole()
	switch {
	case len(r.gang.Roles) == 1 || r.determinesCompletion(name) && !r.isSingleWorkload():
	case r.isSingleWorkload():
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, gang.SuccessPolicyRank0)
	case !isOnlyFinishingRole:
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, name)
	}
}

// isSingleWorkload reports whether one workload has all roles.
func (r *reader) isSingleWorkload() bool {
	first, _ := r.gang.LocateRole(r.gang.Roles[0].Name)
	last, _ := r.gang.LocateRole(r.gang.Roles[len(r.gang.Roles)-1].Name)
	return first == last
}

// reportCompletionPolicy records the outcome of a policy for the completion of a task, or of every
// task if the task is nil.
func (r *reader) reportCompletionPolicy(p lifecyclePolicy, t *task) {
	completing := r.listCompletingRoles()
	if p.action != actionCompleteJob || len(completing) == 0 {
		p.field.MarkDropped("only one policy with the action CompleteJob can complete the gang", "")
		return
	}
	name := r.selectCompletionRole(completing)
	to := fmt.Sprintf("the completion of %s completes the gang", name)
	if policy := r.gang.RollcallAnnotations[gang.AnnotationSuccessPolicy]; policy != "" {
		to = fmt.Sprintf("annotation %s: %s", gang.AnnotationSuccessPolicy, policy)
	}
	isOfRole := t != nil && slices.ContainsFunc(r.gang.Roles, func(role ir.Role) bool {
		return role.Name == name && role.SourceNames.Role == t.name
	})
	if len(completing) == 1 || isOfRole {
		p.field.MarkPreserved(to)
		return
	}
	p.field.MarkChanged(to, fmt.Sprintf("in Volcano each of %s completes the job, and only one role completes a gang",
		strings.Join(completing, ", ")), "name another role with "+gang.AnnotationSuccessPolicy)
}
