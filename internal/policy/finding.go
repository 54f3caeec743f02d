package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Finding is a limit or rule that a gang violates, or may violate.
type Finding struct {
	// Rule is scope/name: the scope is "cluster" or the name of a profile, the name is the key of a
	// limit or the name of a rule.
	Rule string `json:"rule"`
	// Mode is the consequence. It is not [ModeOff].
	Mode Mode `json:"mode"`
	// Field is the path of the field that the user wrote.
	Field string `json:"field"`
	// Value is the value of the field; empty if the field is absent.
	Value string `json:"value,omitempty"`
	// Message describes what the value means for the gang, the limit, the fix, and whom to ask.
	Message string `json:"message"`
	// Unknown is true if the workload does not show whether the gang violates the limit.
	Unknown bool `json:"unknown,omitempty"`

	// excess is the distance of a number from its limit; 0 for any other value.
	excess float64
}

// String returns the finding in one line, as users see it.
func (f Finding) String() string { return f.Field + ": " + f.Message }

// Worst returns the strictest mode of the findings, or [ModeOff] without findings. What is not known
// does not count.
func Worst(findings []Finding) Mode {
	worst := len(Modes()) - 1
	for _, f := range findings {
		if !f.Unknown {
			worst = min(worst, slices.Index(Modes(), f.Mode))
		}
	}
	return Modes()[worst]
}

// Worsened returns the findings after an update that the update introduced or made worse. Both lists
// are findings of the same policy. A number is worse if it is farther from its limit. Any other value
// is worse if it changed and still violates the policy. A rule in CEL has no value, so no update makes its violation
// worse.
func Worsened(before, after []Finding) []Finding {
	violation := func(f Finding) Finding {
		return Finding{Rule: f.Rule, Unknown: f.Unknown, Value: f.Value, Message: f.Message}
	}
	rule := func(f Finding) Finding { return Finding{Rule: f.Rule, Unknown: f.Unknown} }
	existed, excesses := map[Finding]bool{}, map[Finding]float64{}
	for _, f := range before {
		existed[violation(f)] = true
		excesses[rule(f)] = max(excesses[rule(f)], f.excess)
	}
	return slices.DeleteFunc(slices.Clone(after), func(f Finding) bool {
		return existed[violation(f)] || f.excess > 0 && excesses[rule(f)] >= f.excess
	})
}

// sortFindings sorts findings by consequence, then by rule and field.
func sortFindings(findings []Finding) {
	modes := Modes()
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(modes, a.Mode), slices.Index(modes, b.Mode)),
			strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.Field, b.Field),
		)
	})
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
