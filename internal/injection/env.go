package injection

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// receivesEnv reports whether a container gets variables: training containers and init containers, except for
// those of an earlier injection that are removed.
func (a *applier) receivesEnv(c *container) bool {
	if !c.isInit {
		return a.trainingNames[c.Name]
	}
	k := key{kind: kindInitContainer, name: c.Name}
	return !a.owned[k] || a.record.has(k)
}

// plannedEnv returns the variables of a container. An init container of the plan gets only its own
// variables.
func (a *applier) plannedEnv(c *container) []plan.Env {
	for i := range a.plan.InitContainers {
		if c.isInit && a.plan.InitContainers[i].Name == c.Name {
			return a.plan.InitContainers[i].Env
		}
	}
	return a.plan.Env
}

// indexEnv returns planned variables by name.
func indexEnv(planned []plan.Env) map[string]*plan.Env {
	byName := make(map[string]*plan.Env, len(planned))
	for i := range planned {
		byName[planned[i].Name] = &planned[i]
	}
	return byName
}

// withCompletionIndex returns the variables of a plan for a Job. The first variable is the completion index,
// so that other variables can refer to it. The Job controller would append the same variable, too late
// for references: programs would get the text of the reference instead of the rank.
func withCompletionIndex(env []plan.Env, g gang.Gang) []plan.Env {
	index := plan.FieldEnv(gang.EnvCompletionIndex, plan.PodLabelFieldPath(g.IndexLabel)).WithPolicy(plan.KeepUser)
	return append([]plan.Env{index}, env...)
}

func (a *applier) applyEnv() {
	for _, c := range a.pod.containers {
		if a.receivesEnv(c) {
			a.applyContainerEnv(c)
		}
	}
}

func (a *applier) applyContainerEnv(c *container) {
	planned := a.plannedEnv(c)
	inFront := a.refersToPlan(c, planned)
	a.checkUserEnv(c, planned) // before insertions change the indexes
	written := slices.DeleteFunc(a.shareFields(c, planned), func(e corev1.EnvVar) bool { return !a.isWritable(c, e.Name) })
	a.removeUnordered(c, written)
	if inFront {
		c.moveInFront(append(a.findReferredEnv(c, planned, written), written...))
	} else {
		c.Env = slices.Grow(c.Env, len(written))
		for i := range written {
			c.setEnv(&written[i])
		}
	}
	for i := range written {
		a.markApplied(KindEnv, c.Name, written[i].Name)
	}
}

// shareFields returns the planned variables as Apply writes them. If several variables have the same field
// of the pod, all but the first refer to the first. A source has about 250 bytes more than a reference in
// each pod, including managedFields. A variable of the user is never referred to, because it can be a later
// entry.
func (a *applier) shareFields(c *container, planned []plan.Env) []corev1.EnvVar {
	written := make([]corev1.EnvVar, len(planned))
	firstByField := map[string]string{}
	for i := range planned {
		e := &planned[i]
		written[i] = e.EnvVar
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil || !a.isWritable(c, e.Name) {
			continue
		}
		path := e.ValueFrom.FieldRef.FieldPath
		if first, ok := firstByField[path]; ok {
			written[i] = corev1.EnvVar{Name: e.Name, Value: "$(" + first + ")"}
			continue
		}
		firstByField[path] = e.Name
	}
	return written
}

// isWritable reports whether a variable is absent or owned.
func (a *applier) isWritable(c *container, name string) bool {
	_, exists := c.envIndex[name]
	return !exists || a.owns(KindEnv, c.Name, name)
}

// removeUnordered removes all owned variables of a container if their order differs from the order of the
// plan, for example if another build of Rollcall injected them. The kubelet expands only references to
// earlier entries.
func (a *applier) removeUnordered(c *container, written []corev1.EnvVar) {
	last, isOrdered, isComplete := -1, true, true
	for i := range written {
		if !a.isWritable(c, written[i].Name) {
			continue
		}
		index, exists := c.envIndex[written[i].Name]
		isOrdered = isOrdered && (!exists || isComplete && index > last)
		last, isComplete = index, isComplete && exists
	}
	if isOrdered {
		return
	}
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return a.owns(KindEnv, c.Name, e.Name) })
	c.rebuildEnvIndex()
}

// refersToPlan reports whether a value of the user refers to a variable of the plan. The kubelet
// expands $(NAME) only if the variable is an earlier entry, and else keeps the text.
func (a *applier) refersToPlan(c *container, planned []plan.Env) bool {
	for i := range c.Env {
		if !strings.Contains(c.Env[i].Value, "$(") || a.owns(KindEnv, c.Name, c.Env[i].Name) {
			continue
		}
		for j := range planned {
			if strings.Contains(c.Env[i].Value, "$("+planned[j].Name+")") {
				return true
			}
		}
	}
	return false
}

// findReferredEnv returns the variables of the user to which the written variables refer, such as a rank that the
// user also sets. They must stay in front of the written variables. A plan refers only to its own names.
func (a *applier) findReferredEnv(c *container, planned []plan.Env, written []corev1.EnvVar) []corev1.EnvVar {
	var referred []corev1.EnvVar
	for i := range planned {
		e, exists := c.findEnv(planned[i].Name)
		isReferred := func(w corev1.EnvVar) bool { return strings.Contains(w.Value, "$("+e.Name+")") }
		if exists && !a.isWritable(c, e.Name) && slices.ContainsFunc(written, isReferred) {
			referred = append(referred, *e)
		}
	}
	return referred
}

// checkUserEnv decides about the entries of the user with the names of planned variables. A name can occur
// more than once.
func (a *applier) checkUserEnv(c *container, planned []plan.Env) {
	if !slices.ContainsFunc(planned, func(e plan.Env) bool { _, exists := c.envIndex[e.Name]; return exists }) {
		return // the common case
	}
	byName := indexEnv(planned)
	var values *envComparer
	for i := range c.Env {
		e := byName[c.Env[i].Name]
		if e == nil {
			continue
		}
		isOwned := a.owns(KindEnv, c.Name, e.Name)
		r := relate(true, isOwned, !isOwned && equality.Semantic.DeepEqual(c.Env[i], e.EnvVar))
		if r == different {
			if values == nil {
				values = a.newEnvComparer(planned, c.Container)
			}
			r = values.relate(i, e)
		}
		if len(a.denials) >= maxConflicts {
			return
		}
		a.reportEnv(decide(r, e.Policy), r, envConflict{comparer: values, container: c, index: i, planned: e})
	}
}
