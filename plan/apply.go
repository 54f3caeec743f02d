package plan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
)

// Apply changes w to what p wants. The training containers are those of g; every
// init container gets the environment as well, since a rank's preparation may
// depend on its rank.
//
// The warnings name every value of the user's that differs from the plan's and
// stays. When the returned list is not empty, w is in no defined state: apply to
// a copy.
func Apply(w gang.Workload, g gang.Gang, p Plan) ([]string, field.ErrorList) {
	old, err := ReadRecord(w)
	if err != nil {
		path := field.NewPath("metadata", "annotations").Key(gang.AnnotationInjected)
		return nil, field.ErrorList{field.Invalid(path, w.Meta().Annotations[gang.AnnotationInjected],
			"is written by Rollcall alone and cannot be read; remove the annotation")}
	}
	a := &applier{pod: newPod(w.Template()), gang: g, plan: p, record: Record{By: p.By, Build: p.Build}}
	if w.Job != nil && p.RestartInPlace {
		_, a.inPlace = inPlace(w.Job)
	}
	a.adopt(old)
	a.removeStale()
	a.inits()
	for _, c := range a.pod.containers {
		if a.served(c) {
			a.environment(c)
		}
	}
	a.command()
	a.restarts(w)
	a.lastWords()
	a.volumes()
	a.resources()
	a.labels()
	a.searches()
	a.shape(w, old)
	if len(a.errs) > 0 {
		return a.warnings, a.errs
	}
	if err := a.finish(w, old); err != nil {
		return a.warnings, field.ErrorList{field.InternalError(field.NewPath("metadata", "annotations"), err)}
	}
	return a.warnings, nil
}

// applier carries one application of a plan.
type applier struct {
	pod      *pod
	gang     gang.Gang
	plan     Plan
	record   Record        // of this application
	mine     map[slot]bool // what was ours before it
	ours     []slot        // what is ours after it
	inPlace  bool          // containers restart within their pods
	warnings []string
	errs     field.ErrorList
}

// adopt takes over the places of an earlier admission whose values are still those
// that it left. A place that somebody edited is the user's, and judged as such.
func (a *applier) adopt(old *Record) {
	a.mine = map[slot]bool{}
	if old != nil {
		a.mine = old.intact(a.pod)
	}
}

// wanted lists the places that the plan can fill.
func (a *applier) wanted() map[slot]bool {
	out := map[slot]bool{}
	for _, c := range a.pod.containers {
		if a.served(c) {
			for _, e := range a.planned(c) {
				out[slot{slotEnv, c.Name, e.Name}] = true
			}
		}
	}
	for _, i := range a.plan.Inits {
		out[slot{slotInit, i.Name, ""}] = true
	}
	for _, c := range a.gang.Containers {
		out[slot{slotLastWords, c.Name, ""}] = true
		if a.inPlace {
			out[slot{slotRestart, c.Name, ""}] = true
		}
	}
	for _, d := range a.plan.Searches {
		out[slot{kind: slotSearch, name: d}] = true
	}
	if len(a.plan.Command) > 0 {
		out[slot{slotCommand, a.gang.Containers[0].Name, ""}] = true
	}
	for _, v := range a.plan.Volumes {
		out[slot{kind: slotVolume, name: v.Name}] = true
		for _, m := range v.Mounts {
			for _, c := range a.gang.Containers {
				out[slot{slotMount, c.Name, m.MountPath}] = true
			}
		}
	}
	for _, r := range a.plan.Resources {
		for _, c := range a.gang.Containers {
			out[slot{slotResource, c.Name, string(r.Name)}] = true
		}
	}
	for _, l := range a.plan.PodLabels {
		out[slot{kind: slotLabel, name: l.Name}] = true
	}
	return out
}

// removeStale takes back what an earlier plan wanted and this one does not.
func (a *applier) removeStale() {
	if len(a.mine) == 0 {
		return
	}
	wanted := a.wanted()
	for s := range a.mine {
		if !wanted[s] {
			a.pod.remove(s)
			delete(a.mine, s)
		}
	}
}

func (a *applier) trains(name string) bool {
	return slices.ContainsFunc(a.gang.Containers, func(c gang.Container) bool { return c.Name == name })
}

// served reports whether a container gets the environment: the training ones, and
// every init container.
func (a *applier) served(c *container) bool { return c.init || a.trains(c.Name) }

// planned are the variables of a container that is served: the plan's, but for an
// init container of the plan, which has its own and needs no others.
func (a *applier) planned(c *container) []Env {
	for i := range a.plan.Inits {
		if c.init && a.plan.Inits[i].Name == c.Name {
			return a.plan.Inits[i].Env
		}
	}
	return a.plan.Env
}

func (a *applier) warn(path *field.Path, format string, args ...any) {
	a.warnings = append(a.warnings, path.String()+": "+fmt.Sprintf(format, args...))
}

// finish writes the record, last, when all values are in place. An unchanged
// record is not rewritten.
func (a *applier) finish(w gang.Workload, old *Record) error {
	for _, s := range a.ours {
		a.record.add(a.pod, s)
	}
	if w.StatefulSet != nil {
		a.record.Size = w.Ranks()
		if a.record.Size == 0 && old != nil {
			a.record.Size = old.Size // held back, and still told its size
		}
	}
	if old != nil && old.equal(&a.record) {
		return nil
	}
	return a.record.write(w)
}
