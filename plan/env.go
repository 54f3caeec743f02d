package plan

import corev1 "k8s.io/api/core/v1"

// Env is a variable.
type Env struct {
	corev1.EnvVar
	Policy ConflictPolicy
	// Meaning determines which other values of the user are accepted as the same.
	Meaning Meaning
	// Fix is an alternative to the removal of a [Required] variable, for the error message; can be
	// empty.
	Fix string
}

// ConflictPolicy determines what happens if the user has set a different value, in the order from strict to
// lenient. A policy has the same effect on variables, labels and mounts.
type ConflictPolicy int

const (
	// Required denies the workload: the gang needs the value, such as a rank or an address. The error contains the
	// path and the fix. It is the zero value, so that an omitted policy is strict.
	Required ConflictPolicy = iota
	// Warn keeps the user's value, and admission shows a warning with the planned value.
	Warn
	// Suggest keeps the user's value. Admission shows nothing, and rollcall vet shows the planned value
	// (gang.Warning.Advice).
	Suggest
	// KeepUser keeps the user's value silently.
	KeepUser
)

// Meaning is what a variable contains. It determines which other texts of a user mean the same as the
// planned value, and which settings of the gang the text of a user contains.
type Meaning int

const (
	// Text is compared with names of pods in their complete form. It is the zero value.
	Text Meaning = iota
	// Switch is turned on by any text but the empty.
	Switch
	// Rank is the rank of the pod.
	Rank
	// Address is the host of rank 0, or the host and the port of the rendezvous.
	Address
	// Port is the port of the rendezvous.
	Port
	// PodCount is the number of pods of the gang. A range with equal bounds is the same.
	PodCount
	// WorldSize is the number of pods, or of processes if the user has set their number.
	WorldSize
	// ProcessCount is the number of processes of each pod.
	ProcessCount
)

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
