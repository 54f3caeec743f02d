package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPods bounds each number of pods that a user writes: it is the API server's
// bound for the parallelism of an Indexed Job (kubernetes pkg/apis/batch/validation,
// maxParallelismForIndexedJob).
const maxPods = 100_000

// Member is one workload of a gang, as each other member can tell it from its own
// text.
type Member struct {
	// Role is the part that it plays.
	Role string
	// Workload is its name.
	Workload string
	// Size is its number of pods, at least 1.
	Size int32
}

// role is the part that the workload plays.
func (p *parser) role(f Framework) Role {
	if len(f.Roles) == 0 {
		return Role{} // an unknown framework; said already
	}
	role := f.Role
	if v, ok := p.meta.Labels[LabelRole]; ok {
		if _, known := f.Find(v); known {
			role = v
		} else {
			p.unsupported(labelsPath.Key(LabelRole), v, f.RoleNames())
		}
	}
	r, _ := f.Find(role)
	return r
}

// roles reads the sizes of all roles, in the order of their ranks. It is nil for a
// gang of one workload, and where the annotation cannot be read.
func (p *parser) roles(f Framework, own Role) []Member {
	text, ok := p.meta.Annotations[AnnotationRoles]
	if !ok || len(f.Roles) == 0 {
		return nil
	}
	path, before := annotationsPath.Key(AnnotationRoles), len(p.errs)
	var members []Member
	for item := range strings.SplitSeq(text, ",") {
		if m, ok := p.roleSize(f, path, strings.TrimSpace(item)); ok {
			if slices.ContainsFunc(members, func(o Member) bool { return o.Role == m.Role }) {
				p.errs = append(p.errs, field.Duplicate(path, m.Role))
			}
			members = append(members, m)
		}
	}
	if len(p.errs) > before {
		return nil
	}
	slices.SortStableFunc(members, func(a, b Member) int { return cmp.Compare(f.rank(a.Role), f.rank(b.Role)) })
	p.addUp(f, path, text, members)
	if !slices.ContainsFunc(members, func(m Member) bool { return m.Role == own.Name }) {
		p.invalid(path, text, fmt.Sprintf("lacks the role of this workload; add %s=%d, or change the label %s", own.Name, p.workload.Ranks(), LabelRole))
	}
	if len(p.errs) > before {
		return nil
	}
	return members
}

// rank is a role's place in the order of ranks.
func (f Framework) rank(role string) int {
	return slices.IndexFunc(f.Roles, func(r Role) bool { return r.Name == role })
}

// roleSize reads "role=pods".
func (p *parser) roleSize(f Framework, path *field.Path, item string) (Member, bool) {
	name, number, ok := strings.Cut(item, "=")
	if !ok {
		p.invalid(path, item, fmt.Sprintf("must be role=pods, such as %s=2, separated by commas", f.Role))
		return Member{}, false
	}
	r, known := f.Find(name)
	if !known {
		p.unsupported(path, name, f.RoleNames())
		return Member{}, false
	}
	limit := cmp.Or(r.Max, maxPods)
	n, err := strconv.ParseInt(number, 10, 32)
	switch {
	case err != nil || n < 1 || n > maxPods:
		p.invalid(path, item, fmt.Sprintf("must give a whole number of pods from 1 to %d; leave out a role that the gang does not have", limit))
		return Member{}, false
	case n > int64(limit):
		p.invalid(path, item, fmt.Sprintf("a gang of %s has at most %d %s; write %s=%d", f.Name, limit, r.Name, r.Name, limit))
		return Member{}, false
	}
	return Member{Role: r.Name, Size: int32(n)}, true
}

// addUp checks that the roles make a gang together.
func (p *parser) addUp(f Framework, path *field.Path, text string, members []Member) {
	has := func(role string) bool {
		return slices.ContainsFunc(members, func(m Member) bool { return m.Role == role })
	}
	for _, m := range members {
		r, _ := f.Find(m.Role)
		for _, other := range r.Requires {
			if !has(other) {
				p.invalid(path, text, fmt.Sprintf("a %s of %s needs a %s; add %s=<pods>", r.Name, f.Name, other, other))
			}
		}
		for _, other := range r.Excludes {
			if has(other) {
				p.invalid(path, text, fmt.Sprintf("a gang of %s has a %s or a %s, not both; remove one", f.Name, r.Name, other))
			}
		}
	}
}

// alone checks a workload that is a gang by itself.
func (p *parser) alone(f Framework, own Role) {
	if _, wrong := p.meta.Annotations[AnnotationRoles]; wrong {
		return // and said
	}
	if own.Max > 0 && p.workload.Ranks() > own.Max {
		p.invalid(p.sizePath(), p.workload.Ranks(), fmt.Sprintf(
			"a gang of %s has at most %d %s; for more pods, make a second workload with the role %s, and name the sizes of both with the annotation %s",
			f.Name, own.Max, own.Name, f.others(own.Name), AnnotationRoles))
	}
	if len(own.Requires) > 0 {
		p.errs = append(p.errs, field.Required(annotationsPath.Key(AnnotationRoles), fmt.Sprintf(
			"a %s of %s needs a %s beside it; name the size of every role, such as %s=%d,%s=1, on each workload of the gang",
			own.Name, f.Name, own.Requires[0], own.Name, p.workload.Ranks(), own.Requires[0])))
	}
}

// others names a role that can have many pods.
func (f Framework) others(than string) string {
	for _, r := range f.Roles {
		if r.Name != than && r.Max == 0 {
			return r.Name
		}
	}
	return f.Role
}

// members are all workloads of the gang in the order of their ranks. A workload
// without the annotation is the only one.
func (p *parser) members(g Gang, roles []Member) []Member {
	if roles == nil {
		return []Member{{Role: g.Role, Workload: g.Workload, Size: p.workload.Ranks()}}
	}
	for i := range roles {
		m := &roles[i]
		m.Workload = memberName(g.Name, m.Role)
		if m.Role != g.Role {
			continue
		}
		own := p.workload.Ranks()
		if g.Elastic != nil && g.Framework.Elastic == m.Role {
			m.Size = own // within its bounds, it is what it is now
		}
		if m.Size != own {
			p.invalid(annotationsPath.Key(AnnotationRoles), fmt.Sprintf("%s=%d", m.Role, m.Size), fmt.Sprintf(
				"this %s has %s: %d; make the two equal, and the annotation the same on each workload of the gang", g.Kind, p.sizePath(), own))
		}
	}
	return roles
}

// memberName is the name of the workload that plays a role in a gang of several: so
// each member knows the others' addresses, which contain it, without seeing them.
// The pods are then called as training-operator called them, train-worker-0.
func memberName(gang, role string) string { return gang + "-" + role }

// offset is the rank of the workload's first pod.
func offset(members []Member, role string) int32 {
	var n int32
	for _, m := range members {
		if m.Role == role {
			break
		}
		n += m.Size
	}
	return n
}

// sizePath is the field that holds the number of pods.
func (p *parser) sizePath() *field.Path {
	if p.workload.StatefulSet != nil {
		return field.NewPath("spec", "replicas")
	}
	return field.NewPath("spec", "parallelism")
}

// Asked is the number of pods that a StatefulSet's annotations speak of: what one that
// is held back before it ever had any will have. It is 1 where they say nothing.
func Asked(w Workload, fs Frameworks) int32 {
	meta := w.Meta()
	f, _ := fs.Find(meta.Labels[LabelFramework])
	role := cmp.Or(meta.Labels[LabelRole], f.Role)
	if e, err := ParseElastic(meta.Annotations[AnnotationElastic]); err == nil && role == f.Elastic {
		return e.Min
	}
	for item := range strings.SplitSeq(meta.Annotations[AnnotationRoles], ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(item), "=")
		if n, err := strconv.ParseInt(number, 10, 32); err == nil && name == role && n > 0 && n <= maxPods {
			return int32(n)
		}
	}
	return 1
}
