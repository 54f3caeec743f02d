package policy

import "slices"

// WithCeiling returns the policy with a limit for all modes: a finding is at most as strict as the
// ceiling. With [ModeEnforce] nothing changes, and with [ModeOff] there are no findings. The digest
// stays the same. The receiver does not change, and can be nil.
func (p *Policy) WithCeiling(ceiling Mode) *Policy {
	if p == nil {
		return nil
	}
	limited := *p
	limited.ceiling = ceiling
	return &limited
}

// limitMode returns the mode, or the ceiling if the mode is stricter.
func (p *Policy) limitMode(m Mode) Mode {
	if slices.Index(Modes(), m) < slices.Index(Modes(), p.ceiling) {
		return p.ceiling
	}
	return m
}

// CanDeny reports whether the ceiling permits denials. It is false for a nil Policy.
func (p *Policy) CanDeny() bool { return p != nil && p.limitMode(ModeEnforce) == ModeEnforce }

// Rules returns the names of all limits and rules, as in findings. It returns nil for a nil Policy.
func (p *Policy) Rules() []string {
	if p == nil {
		return nil
	}
	return listRules(p.file)
}

// SelectsLabels reports whether a profile selects namespaces by their labels, so that
// [Namespace.Labels] is required.
func (p *Policy) SelectsLabels() bool {
	return p != nil && slices.ContainsFunc(p.file.Profiles, func(profile Profile) bool {
		return profile.Namespaces.Selector != nil
	})
}
