package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Member is one workload of a gang. Every member of a gang derives the same list of members from its
// own metadata.
type Member struct {
	// Role is the name of the workload's role.
	Role string
	// WorkloadName is the name of the workload.
	WorkloadName string
	// Size is the number of pods, at least 1.
	Size int32
}

// parseRole returns the role of the workload; the zero value for an unknown framework.
func (p *parser) parseRole(f Framework) Role {
	if len(f.Roles) == 0 {
		return Role{} // parseFramework has reported the unknown framework
	}
	name := f.roleOf(p.meta)
	if label, ok := p.meta.Labels[LabelRole]; ok {
		if _, known := f.FindRole(label); !known {
			p.addUnknownRole(f, labelsPath.Key(LabelRole), label)
			name = f.DefaultRole
		}
	}
	role, _ := f.FindRole(name)
	return role
}

// addUnknownRole reports a name that is not a role of the framework.
func (p *parser) addUnknownRole(f Framework, path *field.Path, name string) {
	if f.AnyRoles {
		p.addInvalid(path, name, describeRoleNameProblem(name))
		return
	}
	p.addUnsupported(path, name, f.RoleNames())
}

// parseRoles parses the sizes of all roles and returns members without names in the order of their
// ranks. It returns nil without the annotation, and for an invalid annotation.
func (p *parser) parseRoles(f Framework, own Role) []Member {
	text, ok := p.meta.Annotations[AnnotationRoles]
	if !ok || len(f.Roles) == 0 {
		return nil
	}
	path, errsBefore := annotationsPath.Key(AnnotationRoles), len(p.errs)
	if n := strings.Count(text, ",") + 1; n > MaxRoles {
		p.errs = append(p.errs, field.TooMany(path, n, MaxRoles))
		return nil
	}
	var members []Member
	for item := range strings.SplitSeq(text, ",") {
		if p.hasMaxErrors(errsBefore) {
			break
		}
		if m, ok := p.parseRoleSize(f, path, strings.TrimSpace(item)); ok {
			if hasRole(members, m.Role) {
				p.errs = append(p.errs, field.Duplicate(path, m.Role))
			}
			members = append(members, m)
		}
	}
	if len(p.errs) > errsBefore {
		return nil
	}
	slices.SortStableFunc(members, func(a, b Member) int { return f.CompareRoles(a.Role, b.Role) })
	p.checkRoleConstraints(f, path, text, members)
	if !hasRole(members, own.Name) {
		p.addInvalid(path, text, fmt.Sprintf(
			"must include the role of this workload; add %s=%d, or change the label %s",
			own.Name, p.workload.Ranks(), LabelRole))
	}
	if len(p.errs) > errsBefore {
		return nil
	}
	return members
}

func hasRole(members []Member, role string) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.Role == role })
}

// parseRoleSize parses "role=pods".
func (p *parser) parseRoleSize(f Framework, path *field.Path, item string) (Member, bool) {
	name, number, ok := strings.Cut(item, "=")
	if !ok {
		p.addInvalid(path, item, fmt.Sprintf("must be role=pods, such as %s=2, separated by commas", f.DefaultRole))
		return Member{}, false
	}
	role, known := f.FindRole(name)
	if !known {
		p.addUnknownRole(f, path, name)
		return Member{}, false
	}
	limit := cmp.Or(role.MaxPods, MaxPods)
	size, ok := parseIntInRange(number, 1, MaxPods)
	switch {
	case !ok:
		p.addInvalid(path, item, fmt.Sprintf(
			"must be a whole number of pods from 1 to %d; omit roles that the gang does not have", limit))
		return Member{}, false
	case size > int64(limit):
		p.addInvalid(path, item, fmt.Sprintf(
			"a gang of %s has at most %d %s; set %s=%d", f.Name, limit, role.Name, role.Name, limit))
		return Member{}, false
	}
	return Member{Role: role.Name, Size: int32(size)}, true
}

// checkRoleConstraints checks Requires and Excludes of the roles.
func (p *parser) checkRoleConstraints(f Framework, path *field.Path, text string, members []Member) {
	for _, m := range members {
		role, _ := f.FindRole(m.Role)
		for _, required := range role.Requires {
			if !hasRole(members, required) {
				p.addInvalid(path, text, fmt.Sprintf(
					"a %s of %s requires a %s; add %s=<pods>", role.Name, f.Name, required, required))
			}
		}
		for _, excluded := range role.Excludes {
			if hasRole(members, excluded) {
				p.addInvalid(path, text, fmt.Sprintf(
					"a gang of %s has a %s or a %s, not both; remove one of them", f.Name, role.Name, excluded))
			}
		}
	}
}

// checkSingleWorkload checks a workload without [AnnotationRoles].
func (p *parser) checkSingleWorkload(f Framework, own Role) {
	if own.MaxPods > 0 && p.workload.Ranks() > own.MaxPods {
		p.addInvalid(p.sizePath(), p.workload.Ranks(), fmt.Sprintf(
			"a gang of %s has at most %d %s; for more pods, create a second workload with the role %s, "+
				"and set the sizes of both with the annotation %s",
			f.Name, own.MaxPods, own.Name, f.findOtherUnlimitedRole(own.Name), AnnotationRoles))
	}
	if len(own.Requires) > 0 {
		p.errs = append(p.errs, field.Required(annotationsPath.Key(AnnotationRoles), fmt.Sprintf(
			"a %s of %s requires a %s; set the size of every role, such as %s=%d,%s=1, on each workload of the gang",
			own.Name, f.Name, own.Requires[0], own.Name, p.workload.Ranks(), own.Requires[0])))
	}
}

// findOtherUnlimitedRole returns the name of a role without MaxPods other than the excluded role.
func (f Framework) findOtherUnlimitedRole(excluded string) string {
	for _, r := range f.Roles {
		if r.Name != excluded && r.MaxPods == 0 {
			return r.Name
		}
	}
	return f.DefaultRole
}

// buildMembers returns all workloads of the gang in the order of their ranks. Without roles the
// workload is the only member.
func (p *parser) buildMembers(g Gang, roles []Member) []Member {
	ranks := p.workload.Ranks()
	if roles == nil {
		return []Member{{Role: g.Role, WorkloadName: g.WorkloadName, Size: ranks}}
	}
	members := make([]Member, 0, len(roles))
	for _, m := range roles {
		m.WorkloadName = MemberName(g.Name, m.Role)
		if m.Role == g.Role {
			if g.IsElasticRole(m.Role) {
				m.Size = ranks // parseElasticBounds has checked the bounds
			}
			if m.Size != ranks {
				p.addInvalid(annotationsPath.Key(AnnotationRoles), fmt.Sprintf("%s=%d", m.Role, m.Size), fmt.Sprintf(
					"must equal %s of this %s (%d); set the same annotation on each workload of the gang",
					p.sizePath(), g.Kind, ranks))
			}
		}
		members = append(members, m)
	}
	return members
}

// MemberName returns the name of the workload with a role in a multi-workload gang. Each member can
// therefore derive the addresses of the others. Pods have the same names as with training-operator,
// such as train-worker-0.
func MemberName(gang, role string) string { return gang + "-" + role }

// computeRankOffset returns the rank of the first pod of the workload.
func computeRankOffset(members []Member, role string) int32 {
	var offset int32
	for _, m := range members {
		if m.Role == role {
			break
		}
		offset += m.Size
	}
	return offset
}

// sizePath returns the path of the field with the number of pods.
func (p *parser) sizePath() *field.Path {
	if p.workload.StatefulSet != nil {
		return field.NewPath("spec", "replicas")
	}
	return field.NewPath("spec", "parallelism")
}

// DeclaredSize returns the number of pods of a workload by its annotations only, for a workload that
// is created with 0 pods: the minimum of an elastic role, else the size of its role in
// [AnnotationRoles], else 1.
func DeclaredSize(w Workload, frameworks Frameworks) int32 {
	meta := w.Meta()
	f, _ := frameworks.Find(meta.Labels[LabelFramework])
	role := f.roleOf(meta)
	bounds, err := ParseElasticBounds(meta.Annotations[AnnotationElastic])
	if err == nil && role == f.ElasticRole {
		return bounds.Min
	}
	for item := range strings.SplitSeq(meta.Annotations[AnnotationRoles], ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(item), "=")
		if size, ok := parseIntInRange(number, 1, MaxPods); ok && name == role {
			return int32(size)
		}
	}
	return 1
}
