package plan

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// environment gives one container the plan's variables.
func (a *applier) environment(c *container) {
	front := a.refersToPlan(c)
	next := 0 // in front mode: where the next variable goes, after ours that it may refer to
	planned := a.planned(c)
	for i := range planned {
		e := &planned[i]
		s := slot{slotEnv, c.Name, e.Name}
		have, ok := c.envAt(e.Name)
		if ok && !a.mine[s] {
			a.usersEnv(c, e)
			continue
		}
		switch {
		case front && (!ok || c.env[e.Name] != next):
			// Not there yet, or behind an entry that needs it.
			a.pod.remove(s)
			c.insertEnv(next, e.EnvVar)
		case !ok:
			c.insertEnv(len(c.Env), e.EnvVar)
		case !equality.Semantic.DeepEqual(*have, e.EnvVar):
			*have = e.EnvVar
		}
		a.ours = append(a.ours, s)
		next++
	}
}

// refersToPlan reports whether a value of the user's needs one of the plan's
// variables to stand before it: the kubelet expands $(NAME) from earlier entries
// only and leaves the text as it is otherwise.
func (a *applier) refersToPlan(c *container) bool {
	for i := range c.Env {
		if !strings.Contains(c.Env[i].Value, "$(") || a.mine[slot{slotEnv, c.Name, c.Env[i].Name}] {
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

// usersEnv judges the entries of the user's that bear the name of a planned
// variable. Each entry is looked at, since a name may stand twice.
func (a *applier) usersEnv(c *container, want *Env) {
	for i := range c.Env {
		have := &c.Env[i]
		if have.Name != want.Name || sameValue(have, &want.EnvVar) {
			continue
		}
		path := c.path.Child("env").Index(i)
		switch {
		case want.Policy == Yield:
		case want.Policy == Default:
			a.warn(path, "%s: your value stays; Rollcall would set %s", want.Name, text(&want.EnvVar))
		case have.ValueFrom != nil:
			a.warn(path.Child("valueFrom"), "%s: your source stays and cannot be checked here; Rollcall would set %s", want.Name, text(&want.EnvVar))
		default:
			a.errs = append(a.errs, field.Invalid(path.Child("value"), have.Value, fix(want)))
		}
	}
}

// fix says what an Own variable must be and how to get another value.
func fix(e *Env) string {
	detail := e.Name + " must be " + text(&e.EnvVar) + " for this gang; remove the entry"
	if e.Fix != "" {
		detail += ", or " + e.Fix
	}
	return detail
}

// text shows a variable's value to a person.
func text(e *corev1.EnvVar) string {
	if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
		return "the field " + e.ValueFrom.FieldRef.FieldPath
	}
	const longest = 80 // a warning line of the API server holds 256 characters in all
	if len(e.Value) > longest {
		return `"` + e.Value[:longest] + `…"`
	}
	return `"` + e.Value + `"`
}

// sameValue reports whether two entries mean the same. The completion index may
// be read from the pod's annotation (since 1.21) as well as from its label.
func sameValue(a, b *corev1.EnvVar) bool {
	if equality.Semantic.DeepEqual(a.ValueFrom, b.ValueFrom) && a.Value == b.Value {
		return true
	}
	fa, fb := fieldPath(a), fieldPath(b)
	return fa != "" && fa == fb
}

// fieldPath is the pod field that an entry reads, with the two homes of the
// completion index made one; "" when it reads none.
func fieldPath(e *corev1.EnvVar) string {
	if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
		return ""
	}
	p := e.ValueFrom.FieldRef.FieldPath
	if p == "metadata.annotations['"+batchv1.JobCompletionIndexAnnotation+"']" {
		return "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"
	}
	return p
}
