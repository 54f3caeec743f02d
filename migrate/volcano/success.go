package volcano

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
)

// completing are the roles whose end completes the job.
func (r *reader) completing() []string {
	var out []string
	for i, t := range r.tasks {
		if r.reaction(t, taskCompleted) == completeJob {
			out = append(out, r.blueprint.Roles[i].Name)
		}
	}
	return out
}

// success decides whose end is the end of the gang. In Volcano it is that of the tasks
// whose policy says so, and of all pods where none does.
func (r *reader) success() {
	least := r.spec.Get("minSuccess")
	all := r.completing()
	switch {
	case len(all) > 0:
		r.decide(r.decider(all))
		least.Lost("the end of a task completes the job before, or another number of pods does, and Rollcall heeds the former", "")
	case least.Exists() && ptr.Deref(least.Int32(), r.total) < r.total:
		r.minSuccess()
	default:
		least.Carried("all ranks have to end well")
		r.everybody()
	}
}

// everybody makes the gang wait for all ranks, where the framework would not.
func (r *reader) everybody() {
	if r.oneWorkload() || r.framework.launches {
		return // workers that take orders never end
	}
	if slices.ContainsFunc(r.blueprint.Roles, func(b blueprint.Role) bool { return r.framework.role(b.Name).decides }) {
		r.set(gang.AnnotationSuccessPolicy, gang.SuccessAll)
	}
}

// minSuccess carries a number of pods that is enough. A Job of the cluster's own can
// count them; several cannot count together.
func (r *reader) minSuccess() {
	least := r.spec.Get("minSuccess")
	if !r.oneWorkload() {
		least.Lost("the gang is several workloads, which nobody counts together", "name the part that decides with "+gang.AnnotationSuccessPolicy)
		r.everybody()
		return
	}
	r.blueprint.Roles[0].Set = false
	r.blueprint.Job.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: least.Int32()}}}
	least.Carried("spec.successPolicy of the Job")
}

// decider is the one of several roles that Rollcall listens to: the framework's, else the
// one with rank 0.
func (r *reader) decider(roles []string) string {
	for _, name := range roles {
		if r.framework.role(name).decides {
			return name
		}
	}
	return roles[0]
}

// decide makes the end of one role the end of the gang.
func (r *reader) decide(name string) {
	first := r.blueprint.Roles[0].Name == name
	if !first {
		r.blueprint.OneKind = false // a part of one workload cannot decide unless it is its rank 0
	}
	working := 0
	for i, b := range r.blueprint.Roles {
		if b.Name == name {
			r.blueprint.Roles[i].Set = false // a StatefulSet does not end
		}
		if !r.framework.role(b.Name).serves {
			working++
		}
	}
	byDefault := slices.ContainsFunc(r.blueprint.Roles, func(b blueprint.Role) bool { return r.framework.role(b.Name).decides })
	switch {
	case len(r.blueprint.Roles) == 1: // all of its ranks, or the launcher
	case r.oneWorkload():
		r.set(gang.AnnotationSuccessPolicy, gang.SuccessRank0)
	case r.framework.role(name).decides:
	case !byDefault && working == 1 && !r.framework.role(name).serves: // all that end
	default:
		r.set(gang.AnnotationSuccessPolicy, name)
	}
}

// oneWorkload reports whether all roles are in one.
func (r *reader) oneWorkload() bool {
	first, _ := r.blueprint.Where(r.blueprint.Roles[0].Name)
	last, _ := r.blueprint.Where(r.blueprint.Roles[len(r.blueprint.Roles)-1].Name)
	return first == last
}

// accountSuccess enters what becomes of a policy about the end of a task, of the whole
// job where the task is nil.
func (r *reader) accountSuccess(p policy, t *task) {
	if p.action != completeJob {
		p.node.Lost(fmt.Sprintf("the end of a part can end the gang, and cannot be followed by %s", p.action), "")
		return
	}
	all := r.completing()
	if len(all) == 0 { // hidden by another policy, or of no part
		p.node.Lost("another policy of the task comes before it", "")
		return
	}
	name := r.decider(all)
	to := fmt.Sprintf("the end of %s is the end of the gang", name)
	if key := r.blueprint.Keys[gang.AnnotationSuccessPolicy]; key != "" {
		to = fmt.Sprintf("annotation %s: %s", gang.AnnotationSuccessPolicy, key)
	}
	if len(all) == 1 || t != nil && r.roleOf(*t) == name {
		p.node.Carried(to)
		return
	}
	p.node.Changed(to, fmt.Sprintf("in Volcano the end of any of %s completes the job, and a gang listens to one part", strings.Join(all, ", ")),
		"name another with "+gang.AnnotationSuccessPolicy)
}

// roleOf is the role of a task.
func (r *reader) roleOf(t task) string {
	at := slices.IndexFunc(r.tasks, func(have task) bool { return have.name == t.name })
	if at < 0 {
		return ""
	}
	return r.blueprint.Roles[at].Name
}
