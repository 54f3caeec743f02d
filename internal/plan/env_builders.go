package plan

import corev1 "k8s.io/api/core/v1"

// LiteralEnv returns a [Required] variable with a literal value.
func LiteralEnv(name, value string) Env {
	return Env{EnvVar: corev1.EnvVar{Name: name, Value: value}}
}

// FieldEnv returns a [Required] variable with the value of a pod field. The apiVersion is the default
// of the API server, so that a second admission sees no difference.
func FieldEnv(name, path string) Env {
	return Env{EnvVar: corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}}
}

// PodLabelFieldPath returns the field path of a pod label.
func PodLabelFieldPath(label string) string { return "metadata.labels['" + label + "']" }

// WithPolicy returns a copy of the variable with another policy.
func (e Env) WithPolicy(p ConflictPolicy) Env {
	e.Policy = p
	return e
}

// WithMeaning returns a copy of the variable with another meaning.
func (e Env) WithMeaning(m Meaning) Env {
	e.Meaning = m
	return e
}

// WithFix returns a copy of the variable with a fix for users who set it.
func (e Env) WithFix(fix string) Env {
	e.Fix = fix
	return e
}
