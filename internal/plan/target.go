package plan

import (
	"bytes"
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

// digester computes digests of the values of a pod template. It encodes all values in one buffer.
type digester struct {
	pod     *podTemplate
	text    bytes.Buffer
	encoder *json.Encoder // writes to text
}

func newDigester(p *podTemplate) *digester {
	d := &digester{pod: p}
	d.encoder = json.NewEncoder(&d.text)
	return d
}

// digestTarget returns a digest of the current value; empty if the template does not have it.
func (d *digester) digestTarget(t target) string { return d.digestValue(t.currentValue(d.pod)) }

// digestFormerly returns the digest of the current value that earlier builds recorded; empty if it is the
// digest of this build.
func (d *digester) digestFormerly(t target) string {
	if former, ok := t.(formerTarget); ok {
		return d.digestValue(former.formerValue(d.pod))
	}
	return ""
}

// formerTarget is a target of which earlier builds recorded the digest of another value.
type formerTarget interface{ formerValue(*podTemplate) any }

func (d *digester) digestValue(value any) string {
	if value == nil {
		return ""
	}
	d.text.Reset()
	if err := d.encoder.Encode(value); err != nil {
		return "" // the value is not from Rollcall, whose values can all be encoded
	}
	return computeDigest(bytes.TrimSuffix(d.text.Bytes(), []byte("\n"))) // the encoder adds the newline
}

// computeDigest returns the first 32 bits of a hash. A digest detects edits by accident, not attacks:
// whoever can edit the record can also edit the workload.
func computeDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}
