package injection

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// relation is how the value in the object relates to the planned value.
type relation string

const (
	// absent: the object has no value, or the default of the API server, which is not from a user.
	absent relation = "absent"
	// owned: Rollcall has written the value, and nobody has edited it since.
	owned relation = "owned"
	// equal: the value of the user is the planned value.
	equal relation = "equal"
	// sameMeaning: the value of the user is another text for the planned value (see [plan.Meaning]).
	sameMeaning relation = "same meaning"
	// setting: the value of the user contains a setting of the gang that no annotation contains: the port, or the
	// number of processes (see [Adopt]).
	setting relation = "setting"
	// unknown: only the cluster knows the value of the user, such as a key of a ConfigMap.
	unknown relation = "unknown"
	// podName: the value of the user contains the rank, such as the name of the pod. A program can extract the rank.
	podName relation = "pod name"
	// different: the value of the user is any other value.
	different relation = "different"
)

// outcome is what happens to the value in the object.
type outcome string

const (
	write   outcome = "write"   // Rollcall writes the planned value
	adopt   outcome = "adopt"   // the setting becomes that of the gang, and the gang is planned again
	keep    outcome = "keep"    // the value stays silently
	suggest outcome = "suggest" // the value stays, and rollcall vet shows the planned value
	warn    outcome = "warn"    // the value stays, and admission shows the planned value
	deny    outcome = "deny"    // admission denies the workload, with the remedy
)

// outcomes decides about every value of the user: variables, labels, mounts, resources and fields. The columns
// are the conflict policies.
var outcomes = map[relation][4]outcome{
	//            Required  Warn   Suggest  KeepUser
	absent:      {write, write, write, write},
	owned:       {write, write, write, write},
	equal:       {keep, keep, keep, keep},
	sameMeaning: {keep, keep, keep, keep},
	setting:     {adopt, warn, suggest, keep},
	unknown:     {warn, warn, suggest, keep},
	podName:     {warn, warn, suggest, keep},
	different:   {deny, warn, suggest, keep},
}

// decide returns what happens to a value.
func decide(r relation, p plan.ConflictPolicy) outcome { return outcomes[r][p] }

// relate returns the relation of a value that is compared as a whole.
func relate(exists, isOwned, isEqual bool) relation {
	switch {
	case !exists:
		return absent
	case isOwned:
		return owned
	case isEqual:
		return equal
	}
	return different
}

// maxConflicts limits the denials of variables and the remarks about values that are kept. A person fixes a few at
// a time.
const maxConflicts = 20

// remark reports a value of the user that is kept. Only vet shows a suggestion.
func (a *applier) remark(o outcome, path *field.Path, format string, args ...any) {
	if o != warn && o != suggest || len(a.warnings) >= maxConflicts {
		return
	}
	a.addWarning(path, format, args...)
	a.warnings[len(a.warnings)-1].Advice = o == suggest
}

func (a *applier) addWarning(path *field.Path, format string, args ...any) {
	a.warnings = append(a.warnings, gang.NewWarning(path, fmt.Sprintf(format, args...)))
}

// deny reports a mistake of the user and its remedy.
func (a *applier) deny(err *field.Error, fix gang.Fix) {
	a.denials = append(a.denials, gang.Denial{Error: err, Fix: fix})
}

// denyReserved reports that the user has taken a name that the plan needs.
func (a *applier) denyReserved(path *field.Path, name, object string) {
	a.deny(field.Invalid(path, name, "is reserved by Rollcall; rename the "+object), nil)
}

// denyChanged reports a value of Rollcall that was changed after the injection. Removing the object at
// objectPath lets Rollcall add it again.
func (a *applier) denyChanged(path *field.Path, value string, objectPath *field.Path, object string) {
	a.deny(field.Invalid(path, shortenValue(value), fmt.Sprintf(
		"was changed after Rollcall injected it, by an edit or by another webhook; remove the %s from the manifest, "+
			"or exclude it from the other webhook", object)), gang.NewRemoveFix(objectPath))
}
