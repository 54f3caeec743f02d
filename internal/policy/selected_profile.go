package policy

import (
	"fmt"
	"slices"

	"rollcall.training/gang"
)

// selectableKey is the name of the check that a workload keeps its profile. It is the key that makes a profile
// selectable.
const selectableKey = "selectable"

// LeftProfile returns a finding if an update makes a workload leave the profile that it selects. The defaults of the
// profile, such as tolerations, would remain in the workload without the limits of the profile. A profile that the
// policy no longer has can be left.
func (p *Policy) LeftProfile(before, after Input) []Finding {
	left := before.Facts.Profile
	if left == after.Facts.Profile || !slices.Contains(p.SelectableProfiles(after.Namespace), left) {
		return nil
	}
	i := slices.IndexFunc(p.scopes, func(s scope) bool { return s.name == left })
	c := check{name: left + "/" + selectableKey, mode: p.scopes[i].mode}
	if p.limitMode(c.mode) == ModeOff || p.isExempt(c.name, after) {
		return nil
	}
	return []Finding{p.newFinding(c, violation{
		field: annotationsPath.Key(gang.AnnotationProfile).String(), value: after.Facts.Profile,
		message: fmt.Sprintf("cannot change, because the workload has the defaults of the profile %s; "+
			"set it to %q, or create the workload again", left, left),
	})}
}
