package blueprint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
)

// Says is what a label of a pod told in its former system.
type Says int

// What labels told.
const (
	// SaysNothing is a label for which nothing of the new pods stands.
	SaysNothing Says = iota
	// SaysGang is the job's name.
	SaysGang
	// SaysRole is the part that the pod plays, in the system's own word: [Former.Part].
	SaysRole
	// SaysIndex is the pod's index within its part.
	SaysIndex
	// SaysWorkload is the name of the Job that made the pod: one of [Former.Workloads].
	SaysWorkload
)

// Mark is a label, or an annotation, that a system gave to pods.
type Mark struct {
	Says Says
	// Kept is true where Rollcall gives its pods the label too.
	Kept bool
	// Some is true where only some of the pods had it.
	Some bool
	// Common is true where the pods of all jobs had it, so that it tells nothing beside one
	// that names the job or the part.
	Common bool
	// Value is the only one that the label had; empty where it had several.
	Value string
}

// Labels are those by which the pods of a gang were selected, and are now.
type Labels struct {
	// Gang is the gang's name, which was the job's, and Namespace the one that the manifest
	// named; empty when it named none.
	Gang, Namespace string
	marks           map[string]Mark
	moved           map[string]string
	parts           []labelled
}

// labelled is a role as labels tell it from others.
type labelled struct {
	part      string
	workloads []string
	place     Place
	// role is the value of the label for the role.
	role string
	// first is the index of its first pod of several, and shared is true where others are in
	// the same workload.
	first, pods int32
	shared      bool
}

// Selection is what [Labels] know of the gang's pods, by what the blueprint says so far.
func (b *Blueprint) Selection() Labels {
	l := Labels{Gang: b.Name, Namespace: b.Namespace, marks: b.Marks, moved: b.Moved}
	for _, m := range b.members() {
		first := int32(0)
		for _, part := range m.parts {
			l.parts = append(l.parts, labelled{part: part.Former.Part, workloads: part.Former.Workloads, place: m.place(),
				role: b.roleOf(&m), first: first, pods: part.Pods, shared: len(m.parts) > 1})
			first += part.Pods
		}
	}
	return l
}

// roleOf is the value that the pods of a workload have in the label for their role.
func (b *Blueprint) roleOf(m *member) string {
	if m.Name != "" {
		return m.Name
	}
	if b.Alone == nil {
		return ""
	}
	return b.Alone(b.Framework)
}

// Mark is what the system told by a label of the given value; false for labels that were
// none of its.
func (l Labels) Mark(key, value string) (Mark, bool) {
	m, ok := l.marks[key]
	return m, ok && (m.Value == "" || m.Value == value)
}

// Keys are the labels of the former system.
func (l Labels) Keys() []string { return slices.Sorted(maps.Keys(l.marks)) }

// Gone are the labels of the former system that the new pods do not have at all.
func (l Labels) Gone() []string {
	var out []string
	for _, key := range l.Keys() {
		if m := l.marks[key]; !m.Kept && m.Says != SaysWorkload && m.Value == "" {
			out = append(out, key)
		}
	}
	return out
}

// Now is the label by which the same pods are selected: the same where it still holds. It
// is false where no one label tells them from others.
func (l Labels) Now(key, value string) (nowKey, nowValue string, ok bool) {
	m, known := l.Mark(key, value)
	switch {
	case !known, m.Kept && m.Says == SaysGang:
		return key, value, true
	case m.Says == SaysWorkload:
		return l.workload(key, value)
	case len(l.parts) == 0: // plain Jobs, which are no gang
		return "", "", false
	case m.Says == SaysGang:
		return gang.LabelGang, value, true
	case m.Says == SaysRole:
		return l.part(m, key, value)
	case m.Says == SaysIndex:
		return l.index(value)
	}
	return "", "", false
}

// part is [Labels.Now] for the part that pods play.
func (l Labels) part(m Mark, key, value string) (nowKey, nowValue string, ok bool) {
	at := slices.IndexFunc(l.parts, func(p labelled) bool { return p.part != "" && strings.EqualFold(p.part, value) })
	switch {
	case at < 0:
		return "", "", false
	case m.Kept && !l.parts[at].shared && l.parts[at].role == value:
		return key, value, true
	}
	return l.parts[at].alone()
}

// index is [Labels.Now] for the index in a part.
func (l Labels) index(value string) (nowKey, nowValue string, ok bool) {
	p := l.parts[0]
	if slices.ContainsFunc(l.parts, func(o labelled) bool { return o.shared || o.place.Kind != p.place.Kind }) {
		return "", "", false
	}
	return p.indexKey(), value, true
}

// workload is [Labels.Now] for the name of the Job that made the pods.
func (l Labels) workload(key, value string) (nowKey, nowValue string, ok bool) {
	if now, moved := l.moved[value]; moved {
		return key, now, true
	}
	at := slices.IndexFunc(l.parts, func(p labelled) bool { return slices.Contains(p.workloads, value) })
	switch {
	case at < 0 || l.parts[at].place.Name == value:
		return key, value, true // some other's, or the same
	case len(l.parts[at].workloads) > 1:
		return "", "", false
	case l.parts[at].place.Kind == string(gang.Job):
		return key, l.parts[at].place.Name, true
	}
	return l.parts[at].alone()
}

// alone is the label that tells a part from the others.
func (p labelled) alone() (key, value string, ok bool) {
	switch {
	case !p.shared:
		return gang.LabelRole, p.role, true
	case p.pods == 1:
		return p.indexKey(), strconv.Itoa(int(p.first)), true
	}
	return "", "", false
}

// indexKey is the label with the index of a pod in its workload.
func (p labelled) indexKey() string {
	if p.place.Kind == string(gang.StatefulSet) {
		return appsv1.PodIndexLabel
	}
	return batchv1.JobCompletionIndexAnnotation
}

// Advice says by which labels the pods can be told now, for people.
func (l Labels) Advice() string {
	if len(l.parts) == 0 {
		return "select by " + batchv1.JobNameLabel
	}
	text := fmt.Sprintf("select by %s: %s", gang.LabelGang, l.Gang)
	if len(l.parts) > 1 && !l.parts[0].shared {
		return text + ", and " + gang.LabelRole
	}
	if len(l.parts) > 1 {
		return text + ", and " + l.parts[0].indexKey()
	}
	return text
}
