package plan

import corev1 "k8s.io/api/core/v1"

// Value is an Own variable with a literal value.
func Value(name, value string) Env {
	return Env{EnvVar: corev1.EnvVar{Name: name, Value: value}}
}

// FieldEnv is an Own variable that each pod reads from a field of its own. The
// apiVersion is spelt out, since the API server adds it where it is absent, and a
// second admission would then see a difference.
func FieldEnv(name, path string) Env {
	return Env{EnvVar: corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}}
}

// PodLabelField is the field path of a pod's label.
func PodLabelField(label string) string { return "metadata.labels['" + label + "']" }

// As returns the variable with another policy.
func (e Env) As(p Policy) Env {
	e.Policy = p
	return e
}

// WithFix returns the variable with a fix for whoever set it.
func (e Env) WithFix(fix string) Env {
	e.Fix = fix
	return e
}
