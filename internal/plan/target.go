package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// target is one value of a pod template that Rollcall can own, such as a variable of a container.
// Implementations are comparable structs, so that targets can be keys of a map.
type target interface {
	// currentValue returns the value, or nil if the template does not have it.
	currentValue(p *podTemplate) any
	// removeFrom removes the value if the template has it.
	removeFrom(p *podTemplate)
	// recordDigest stores the digest of the value.
	recordDigest(r *Record, digest string)
}

// targetKind is a kind of targets. A new kind is a file with these functions, a field of [Record],
// and an entry in targetKinds.
type targetKind struct {
	// planned lists the targets that the plan can fill. Owned targets that are not in the list are
	// cleared before a plan is applied.
	planned func(a *applier) []target
	// apply fills the targets.
	apply func(a *applier)
	// recorded lists the targets of a record with their digests.
	recorded func(r *Record, add func(t target, digest string))
}

// targetKinds are all kinds in the order of their application. Init containers are first, because
// they also get variables.
var targetKinds = []targetKind{
	initContainerTargets,
	envTargets,
	commandTargets,
	restartRulesTargets,
	terminationMessagePolicyTargets,
	volumeTargets,
	resourceTargets,
	podLabelTargets,
	dnsSearchTargets,
}

// digestTarget returns a digest of the current value; empty if the template does not have it.
func digestTarget(p *podTemplate, t target) string { return digestValue(t.currentValue(p)) }

// digestFormerly returns the digest of the current value that earlier builds recorded; empty if it is the
// digest of this build.
func digestFormerly(p *podTemplate, t target) string {
	if former, ok := t.(formerTarget); ok {
		return digestValue(former.formerValue(p))
	}
	return ""
}

// formerTarget is a target of which earlier builds recorded the digest of another value.
type formerTarget interface{ formerValue(*podTemplate) any }

func digestValue(value any) string {
	if value == nil {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "" // the value is not from Rollcall, whose values can all be encoded
	}
	return computeDigest(text)
}

// computeDigest returns the first 32 bits of a hash. A digest detects edits by accident, not attacks:
// whoever can edit the record can also edit the workload.
func computeDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}
