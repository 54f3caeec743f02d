package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Several reports whether the workload calls itself one of several in a gang.
func (w Workload) Several() bool {
	_, ok := w.Meta().Annotations[AnnotationRoles]
	return ok
}

// NameOf is the name of the gang that a workload is in: the one that its pods were
// given at admission, else the one that its text asks for.
func NameOf(w Workload, fs Frameworks) string {
	asked := w.Meta().Labels[LabelGang]
	if w.Several() {
		asked = cmp.Or(asked, NamedFor(w, fs))
	}
	return cmp.Or(w.Template().Labels[LabelGang], asked, w.Meta().Name)
}

// NamedFor is the name of the gang of several of which the workload would be a member
// by its own name; empty when it is named after no role.
func NamedFor(w Workload, fs Frameworks) string {
	f, _ := fs.Find(w.Meta().Labels[LabelFramework])
	role := cmp.Or(w.Meta().Labels[LabelRole], f.Role)
	if name, ok := strings.CutSuffix(w.Meta().Name, "-"+role); ok && role != "" {
		return name
	}
	return ""
}

// Joins reports whether a workload would be a member of a gang of several that has the name
// of its gang: since it says so, or since it is named after a role. A gang of one workload
// that is called alike is another: its end must not be that of theirs.
func Joins(w Workload, fs Frameworks) bool {
	return w.Several() || NamedFor(w, fs) == NameOf(w, fs)
}

// Voice is what one workload says of the gang that it is in. Each was admitted alone,
// and nobody but the reconciler hears all of them.
type Voice struct {
	// Kind and Workload say whose it is.
	Kind     Kind
	Workload string
	// Gang is what it says.
	Gang Gang
	// Silent says why it says nothing, and what to do about it; empty when it speaks.
	Silent string
}

func (v Voice) String() string { return string(v.Kind) + " " + v.Workload }

// facts are what all members of a gang have to say alike, by their keys. What else
// differs between them is each member's own affair: how many processes a host gets,
// for one, only the launcher has to know.
var facts = []struct {
	key string
	say func(Gang) string
}{
	{LabelGang, func(g Gang) string { return g.Name }},
	{LabelFramework, func(g Gang) string { return g.Framework.Name }},
	{AnnotationRoles, sizes},
	{AnnotationElastic, func(g Gang) string {
		if g.Elastic == nil {
			return "nothing"
		}
		return g.Elastic.String()
	}},
	{AnnotationPort, func(g Gang) string { return strconv.Itoa(int(g.Port)) }},
}

// sizes is the canonical text of the roles. The role of an elastic gang that varies
// has no size of its own, but its bounds.
func sizes(g Gang) string {
	var out []string
	for _, m := range g.Members {
		size := strconv.Itoa(int(m.Size))
		if g.Elastic != nil && m.Role == g.Framework.Elastic {
			size = g.Elastic.String()
		}
		out = append(out, m.Role+"="+size)
	}
	return strings.Join(out, ",")
}

// Disagreements says in what the workloads of a gang contradict each other: a sentence
// for each, with who says what and what to do. Their order does not matter.
func Disagreements(voices []Voice) []string {
	voices = slices.Clone(voices)
	slices.SortFunc(voices, func(a, b Voice) int {
		return cmp.Or(cmp.Compare(a.Gang.Offset, b.Gang.Offset), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Silent, b.Silent))
	})
	out := twice(voices)
	var speak []Voice
	for _, v := range voices {
		if v.Silent != "" {
			out = append(out, fmt.Sprintf("the %s %s", v, v.Silent))
			continue
		}
		speak = append(speak, v)
	}
	for _, f := range facts {
		said := map[string]bool{}
		var who []string
		for _, v := range speak {
			said[f.say(v.Gang)] = true
			who = append(who, fmt.Sprintf("the %s says %s", v, f.say(v.Gang)))
		}
		if len(said) > 1 {
			out = append(out, fmt.Sprintf("%s: %s; make it the same on all of them, and create Jobs anew, which take it at their creation alone",
				f.key, strings.Join(who, ", ")))
		}
		if len(said) > 1 && f.key == LabelFramework {
			break // the rest follows from it
		}
	}
	return out
}

// twice finds a Job and a StatefulSet of one name, whose pods would have the same
// ranks and addresses.
func twice(voices []Voice) []string {
	var out []string
	for _, v := range voices {
		if v.Kind == Job && slices.ContainsFunc(voices, func(o Voice) bool { return o.Kind == StatefulSet && o.Workload == v.Workload }) {
			out = append(out, fmt.Sprintf("a Job and a StatefulSet are both called %s, and their pods would have the same ranks; delete one of the two", v.Workload))
		}
	}
	return out
}
