package plan

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var envTargets = targetKind{
	planned: (*applier).plannedEnvTargets,
	apply:   (*applier).applyEnv,
	recorded: func(r *Record, add func(target, string)) {
		eachByContainer(r.Env, func(container, name string) target { return envTarget{container, name} }, add)
	},
}

// envTarget is a variable of a container.
type envTarget struct{ container, name string }

func (t envTarget) currentValue(p *podTemplate) any {
	if c := p.containersByName[t.container]; c != nil {
		if e, ok := c.findEnv(t.name); ok {
			return *e
		}
	}
	return nil
}

func (t envTarget) removeFrom(p *podTemplate) {
	if c := p.containersByName[t.container]; c != nil {
		c.removeEnv(t.name)
	}
}

func (t envTarget) recordDigest(r *Record, digest string) {
	setByContainer(&r.Env, t.container, t.name, digest)
}

func (a *applier) plannedEnvTargets() []target {
	var targets []target
	for _, c := range a.pod.containers {
		if !a.receivesEnv(c) {
			continue
		}
		for _, e := range a.plannedEnv(c) {
			targets = append(targets, envTarget{c.Name, e.Name})
		}
	}
	return targets
}

// receivesEnv reports whether a container gets variables: training containers and init containers.
func (a *applier) receivesEnv(c *container) bool { return c.isInit || a.isTrainingContainer(c.Name) }

// plannedEnv returns the variables of a container. An init container of the plan gets only its own
// variables.
func (a *applier) plannedEnv(c *container) []Env {
	for i := range a.plan.InitContainers {
		if c.isInit && a.plan.InitContainers[i].Name == c.Name {
			return a.plan.InitContainers[i].Env
		}
	}
	return a.plan.Env
}

func (a *applier) applyEnv() {
	for _, c := range a.pod.containers {
		if a.receivesEnv(c) {
			a.applyContainerEnv(c)
		}
	}
}

func (a *applier) applyContainerEnv(c *container) {
	inFront := a.refersToPlan(c)
	next := 0 // index of the next variable if inFront
	planned := a.plannedEnv(c)
	for i := range planned {
		e := &planned[i]
		t := envTarget{c.Name, e.Name}
		existing, exists := c.findEnv(e.Name)
		if exists && !a.owned[t] {
			a.checkUserEnv(c, e)
			continue
		}
		switch {
		case inFront && (!exists || c.envIndex[e.Name] != next):
			c.removeEnv(e.Name)
			c.insertEnv(next, e.EnvVar)
		case !exists:
			c.insertEnv(len(c.Env), e.EnvVar)
		case !equality.Semantic.DeepEqual(*existing, e.EnvVar):
			*existing = e.EnvVar
		}
		a.applied = append(a.applied, t)
		next++
	}
}

// refersToPlan reports whether a value of the user refers to a variable of the plan. The kubelet
// expands $(NAME) only if the variable is an earlier entry, and else keeps the text.
func (a *applier) refersToPlan(c *container) bool {
	for i := range c.Env {
		if !strings.Contains(c.Env[i].Value, "$(") || a.owned[envTarget{c.Name, c.Env[i].Name}] {
			continue
		}
		for j := range a.plan.Env {
			if strings.Contains(c.Env[i].Value, "$("+a.plan.Env[j].Name+")") {
				return true
			}
		}
	}
	return false
}

// checkUserEnv checks all entries of the user with the name of a planned variable. A name can occur
// more than once.
func (a *applier) checkUserEnv(c *container, planned *Env) {
	for i := range c.Env {
		existing := &c.Env[i]
		if existing.Name != planned.Name || sameEnvValue(existing, &planned.EnvVar) {
			continue
		}
		path := c.path.Child("env").Index(i)
		switch {
		case planned.Policy == Fallback:
		case planned.Policy == Default:
			a.addWarning(path, "%s: keeping your value; Rollcall would set %s",
				planned.Name, formatEnvValue(&planned.EnvVar))
		case existing.ValueFrom != nil:
			a.addWarning(path.Child("valueFrom"),
				"%s: keeping your source, whose value is not known at admission; Rollcall would set %s",
				planned.Name, formatEnvValue(&planned.EnvVar))
		default:
			a.errs = append(a.errs, field.Invalid(path.Child("value"), existing.Value, explainRequiredEnv(planned)))
		}
	}
}

// explainRequiredEnv returns the required value of a variable and how to get another value.
func explainRequiredEnv(e *Env) string {
	detail := e.Name + " must be " + formatEnvValue(&e.EnvVar) + " for this gang; remove the entry"
	if e.Fix != "" {
		detail += ", or " + e.Fix
	}
	return detail
}

// formatEnvValue returns the value of a variable for a message.
func formatEnvValue(e *corev1.EnvVar) string {
	if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
		return "the field " + e.ValueFrom.FieldRef.FieldPath
	}
	const maxLength = 80 // the API server truncates warnings after 256 characters
	if len(e.Value) > maxLength {
		return `"` + e.Value[:maxLength] + `…"`
	}
	return `"` + e.Value + `"`
}

// sameEnvValue reports whether two entries have the same value. The completion index is in an
// annotation (since 1.21) and in a label of the pod, so both sources are the same.
func sameEnvValue(a, b *corev1.EnvVar) bool {
	if equality.Semantic.DeepEqual(a.ValueFrom, b.ValueFrom) && a.Value == b.Value {
		return true
	}
	pathA, pathB := normalizedFieldPath(a), normalizedFieldPath(b)
	return pathA != "" && pathA == pathB
}

// normalizedFieldPath returns the pod field that an entry reads; empty for other sources. The
// annotation with the completion index is replaced by the label.
func normalizedFieldPath(e *corev1.EnvVar) string {
	if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
		return ""
	}
	p := e.ValueFrom.FieldRef.FieldPath
	if p == "metadata.annotations['"+batchv1.JobCompletionIndexAnnotation+"']" {
		return PodLabelFieldPath(batchv1.JobCompletionIndexAnnotation)
	}
	return p
}
