package blueprint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

// reindex lets containers read the index of their pod where it is now.
func reindex(m *member, part Role) {
	if part.Former.IndexField == "" {
		return
	}
	now := "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"
	if m.Set {
		now = "metadata.labels['" + appsv1.PodIndexLabel + "']"
	}
	found := false
	fields(&m.Template.Spec, func(f *corev1.ObjectFieldSelector) {
		if kind, key, ok := ownLabel(f.FieldPath); ok && "metadata.labels['"+key+"']" == part.Former.IndexField && !m.bears(kind, key) {
			f.FieldPath, found = now, true
		}
	})
	switch {
	case found && len(m.parts) > 1:
		part.Node.Changed(now, "read in the place of "+part.Former.IndexField+
			"; in the one workload that stands for all parts it counts through all of them", "see whether the program expects the index within its own part")
	case found:
		part.Node.Changed(now, "read in the place of "+part.Former.IndexField+", which the new pods do not have; it counts the pods of the workload from 0", "")
	}
}

// replicaType is the label by which operators told their pods the part that they play.
const replicaType = "metadata.labels['training.kubeflow.org/replica-type']"

// readsItself names what a container reads of its own pod that is another now.
func readsItself(m *member, part Role) {
	named, typed := false, false
	fields(&m.Template.Spec, func(f *corev1.ObjectFieldSelector) {
		named = named || f.FieldPath == "metadata.name"
		typed = typed || strings.ReplaceAll(f.FieldPath, `"`, `'`) == replicaType
	})
	if named && part.Former.Prefix != "" {
		now := m.workload + "-<index>-<five letters>, another at each restart"
		if m.Set {
			now = m.workload + "-<index>"
		}
		part.Node.Remark(ledger.Changed, "metadata.name", fmt.Sprintf("a container reads the name of its pod, which was %s and is %s", part.Former.name(0), now),
			"for what shall outlive a restart, such as a folder of checkpoints, read the rank: $(ROLLCALL_RANK)")
	}
	if typed && len(m.parts) > 1 {
		part.Node.Remark(ledger.Changed, replicaType, "a container reads its part from the label, and all pods of the one workload have the same", "tell the parts apart by the rank: $(ROLLCALL_RANK)")
	}
}

// fields visits the fields of its own pod that a template reads.
func fields(spec *corev1.PodSpec, visit func(*corev1.ObjectFieldSelector)) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, e := range containers[i].Env {
				if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
					visit(e.ValueFrom.FieldRef)
				}
			}
		}
	}
	for _, v := range spec.Volumes {
		if v.DownwardAPI == nil {
			continue
		}
		for _, item := range v.DownwardAPI.Items {
			if item.FieldRef != nil {
				visit(item.FieldRef)
			}
		}
	}
}

// ownPath matches the path of a label or an annotation of a pod.
var ownPath = regexp.MustCompile(`^metadata\.(labels|annotations)\[['"](.+)['"]\]$`)

// ownLabel is the label, or annotation, that a path names.
func ownLabel(path string) (kind, key string, ok bool) {
	m := ownPath.FindStringSubmatch(path)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// bears reports whether the template itself gives its pods a label or an annotation.
func (m *member) bears(kind, key string) bool {
	own := m.Template.Labels
	if kind == "annotations" {
		own = m.Template.Annotations
	}
	_, ok := own[key]
	return ok
}

// reread lets the containers of a part read what the labels of the former system told
// them, and names what they cannot read any more.
func (b *Blueprint) reread(m *member, part Role) {
	spec := &m.Template.Spec
	for _, list := range []string{"initContainers", "containers"} {
		containers := spec.Containers
		if list == "initContainers" {
			containers = spec.InitContainers
		}
		for i := range containers {
			c := &containers[i]
			for j := range c.Env {
				e := &c.Env[j]
				if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
					continue
				}
				r := reading{b: b, m: m, part: part, by: "variable " + e.Name, node: variable(part.Node.At("spec", list), c.Name, e.Name)}
				if text, ok := r.field(e.ValueFrom.FieldRef); ok {
					e.Value, e.ValueFrom = text, nil
				}
			}
		}
	}
	for i, v := range spec.Volumes {
		if v.DownwardAPI == nil {
			continue
		}
		for _, item := range v.DownwardAPI.Items {
			if item.FieldRef != nil {
				r := reading{b: b, m: m, part: part, by: "file " + item.Path + " of volume " + v.Name, node: part.Node.At("spec", "volumes").Item(i), file: true}
				r.field(item.FieldRef)
			}
		}
	}
}

// variable is where the manifest has a variable of a container; the list of containers
// where it is elsewhere.
func variable(list ledger.Node, container, name string) ledger.Node {
	named := func(of ledger.Node, name string) (ledger.Node, bool) {
		all := of.Items()
		at := slices.IndexFunc(all, func(n ledger.Node) bool { return n.Get("name").String() == name })
		if at < 0 {
			return of, false
		}
		return all[at], true
	}
	if c, ok := named(list, container); ok {
		if e, ok := named(c.Get("env"), name); ok {
			return e
		}
	}
	return list
}

// reading is one place that reads a label of its own pod.
type reading struct {
	b    *Blueprint
	m    *member
	part Role
	// by says what reads, for people, and node is where.
	by   string
	node ledger.Node
	// file is true for a file, which cannot hold a text of ours.
	file bool
}

// field sees to one. It is true for what holds a text from now on.
func (r reading) field(f *corev1.ObjectFieldSelector) (text string, ok bool) {
	kind, key, ok := ownLabel(f.FieldPath)
	mark, known := r.b.Marks[key]
	if !ok || !known || r.m.bears(kind, key) {
		return "", false
	}
	switch mark.Says {
	case SaysIndex: // by reindex
		return "", false
	case SaysWorkload:
		if r.m.workload != firstOf(r.part.Former.Workloads) {
			r.say(ledger.Changed, r.m.workload, fmt.Sprintf("%s reads the label %s, whose value is the name of the workload", r.by, key), "")
		}
		return "", false
	case SaysGang:
		if !mark.Kept {
			r.point(f, key, gang.LabelGang)
		}
		return "", false
	case SaysRole:
		return r.role(f, mark, key)
	case SaysNothing:
	}
	r.empty(key)
	return "", false
}

// role is [reading.field] for the part that the pod plays.
func (r reading) role(f *corev1.ObjectFieldSelector, mark Mark, key string) (text string, ok bool) {
	shared, same := len(r.m.parts) > 1, r.b.roleOf(r.m) == r.part.Former.Part
	switch {
	case mark.Kept && (shared || same): // readsItself tells of what is shared
	case mark.Some || shared || r.part.Former.Part == "" || !same && r.file:
		r.empty(key)
	case same:
		r.point(f, key, gang.LabelRole)
	default:
		r.say(ledger.Changed, r.part.Former.Part, fmt.Sprintf("%s read the label %s, whose value is another now, or none; it holds the former one", r.by, key), "")
		return r.part.Former.Part, true
	}
	return "", false
}

// point lets it read another label.
func (r reading) point(f *corev1.ObjectFieldSelector, was, label string) {
	f.FieldPath = "metadata.labels['" + label + "']"
	r.say(ledger.Changed, f.FieldPath, fmt.Sprintf("%s read the label %s, which the new pods do not bear; this one has the same value", r.by, was), "")
}

// empty says that it finds nothing.
func (r reading) empty(key string) {
	r.say(ledger.Lost, "", fmt.Sprintf("%s is empty: the new pods do not have the label %s", r.by, key), "read ROLLCALL_ROLE and ROLLCALL_RANK, or the label "+gang.LabelRole)
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// say accounts for it.
func (r reading) say(o ledger.Outcome, to, reason, do string) {
	n := r.node
	if !n.Exists() {
		n = r.part.Node
	}
	n.Remark(o, to, reason, do)
}
