package plan

import corev1 "k8s.io/api/core/v1"

// FieldEnv is a variable that each pod reads from a field of its own. The
// apiVersion is spelt out, since the API server adds it where it is absent, and a
// second admission would then see a difference.
func FieldEnv(name, path string) Env {
	return Env{EnvVar: corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}}
}

// PodLabelField is the field path of a pod's label.
func PodLabelField(label string) string { return "metadata.labels['" + label + "']" }
