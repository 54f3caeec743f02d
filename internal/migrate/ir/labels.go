package ir

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// Meaning is the fact that a label of the former system stated about a pod.
type Meaning int

// The meanings of labels.
const (
	// MeaningNone is any fact that no label of the new pods states.
	MeaningNone Meaning = iota
	// MeaningGang is the name of the job.
	MeaningGang
	// MeaningRole is the role of the pod in the terms of the former system: [SourceNames.Role].
	MeaningRole
)

// SourceLabel is a label, or an annotation, that the former system gave to pods.
type SourceLabel struct {
	Meaning Meaning
	// Preserved is true if the new pods have the label too. Its value is the same unless Meaning is
	// [MeaningNone].
	Preserved bool
	// ValuePrefix is the prefix of the values that the system gave to the label. The label is the
	// user's if it has another value.
	ValuePrefix string
}

// LabelMapping translates labels by which the former system's pods were selected. It knows the gang
// and the role.
type LabelMapping struct {
	// Gang is the name of the gang and of the former job.
	Gang string
	// Namespace is metadata.namespace of the manifest, or "".
	Namespace    string
	sourceLabels map[string]SourceLabel
	// roles maps former roles, in lower case, to the new ones. Roles that share a workload with
	// others are absent.
	roles map[string]string
	hint  string
}

// LabelMapping returns the translation for the roles that b has so far, at least one.
func (b *Gang) LabelMapping() LabelMapping {
	l := LabelMapping{
		Gang: b.Name, Namespace: b.Namespace, sourceLabels: b.SourceLabels, roles: map[string]string{},
		hint: fmt.Sprintf("select by %s: %s, and ", gang.LabelGang, b.Name),
	}
	workloads := b.planWorkloads()
	for i := range workloads {
		w := &workloads[i]
		if former := w.roles[0].SourceNames.Role; former != "" && len(w.roles) == 1 {
			framework, _ := b.Frameworks.Find(b.Framework)
			l.roles[strings.ToLower(former)] = cmp.Or(w.Name, framework.DefaultRole)
		}
	}
	switch {
	case len(workloads) > 1:
		l.hint += gang.LabelRole
	case workloads[0].StatefulSet:
		l.hint += appsv1.PodIndexLabel + " for single pods"
	default:
		l.hint += batchv1.JobCompletionIndexAnnotation + " for single pods"
	}
	return l
}

// FindSourceLabel returns the label of the former system with the given key. It returns false if
// the label is the user's. An empty value matches every value.
func (l LabelMapping) FindSourceLabel(key, value string) (SourceLabel, bool) {
	found, ok := l.sourceLabels[key]
	return found, ok && (value == "" || strings.HasPrefix(value, found.ValuePrefix))
}

// RemovedLabels returns the labels of the former system that no pod has after the migration.
func (l LabelMapping) RemovedLabels() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(l.sourceLabels)), func(key string) bool {
		found := l.sourceLabels[key]
		return found.Preserved || found.ValuePrefix != ""
	})
}

// Translate returns the label that selects the same pods as key: value did, which may be the same
// label. An empty value means that only the key is selected by. It returns false if no label selects
// the same pods.
func (l LabelMapping) Translate(key, value string) (newKey, newValue string, ok bool) {
	found, known := l.FindSourceLabel(key, value)
	switch {
	case !known:
		return key, value, true
	case found.Meaning == MeaningGang && found.Preserved:
		return key, value, true
	case found.Meaning == MeaningGang:
		return gang.LabelGang, value, true
	case found.Meaning == MeaningRole:
		role, ok := l.roles[strings.ToLower(value)]
		if ok && found.Preserved && role == value {
			return key, value, true
		}
		return gang.LabelRole, role, ok
	}
	return "", "", false
}

// SelectorHint describes how to select the new pods.
func (l LabelMapping) SelectorHint() string { return l.hint }

// podMetadataPattern matches the downward API path of a label or an annotation.
var podMetadataPattern = regexp.MustCompile(`^metadata\.(labels|annotations)\[['"](.+)['"]\]$`)

// reportFieldRefs reports variables and files of one role that read what the new pods do not have: labels of the
// former system, and the former name of the pod.
func (b *Gang) reportFieldRefs(w *plannedWorkload, role Role) {
	visitFieldRefs(&w.Template.Spec, role.Source, func(path, reader string, field source.Field) {
		if path == "metadata.name" && role.SourceNames.Prefix != "" {
			field.AddNote(fmt.Sprintf("%s reads the name of the pod, which was %s and starts with %s-", reader,
				role.SourceNames.podName(0), w.workloadName), "use $(ROLLCALL_RANK) for names that must survive a restart")
		}
		match := podMetadataPattern.FindStringSubmatch(path)
		if match == nil {
			return
		}
		key, defined := match[2], w.Template.Labels
		if match[1] == "annotations" {
			defined = w.Template.Annotations
		}
		label, isFormer := b.SourceLabels[key]
		isSame := label.Preserved && (label.Meaning == MeaningGang || label.Meaning == MeaningRole && len(w.roles) == 1)
		if _, ok := defined[key]; ok || !isFormer || isSame {
			return
		}
		field.AddNoteWithOutcome(source.Dropped, "", reader+" reads the label "+key+
			", which the new pods do not have, or have with another value",
			"use the variables ROLLCALL_GANG, ROLLCALL_ROLE, ROLLCALL_RANK or ROLLCALL_ATTEMPT")
	})
}

// visitFieldRefs visits the fields of its own pod that a template reads, with the variable or file that reads
// them. Template is the place of the template in the manifest.
func visitFieldRefs(
	spec *corev1.PodSpec, template source.Field, visit func(path, reader string, field source.Field),
) {
	for _, c := range ListContainers(spec) {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				visit(e.ValueFrom.FieldRef.FieldPath, "variable "+e.Name, FindEnvField(template, c.Name, e.Name))
			}
		}
	}
	for i, volume := range spec.Volumes {
		if volume.DownwardAPI == nil {
			continue
		}
		field := template.At("spec", "volumes").Item(i)
		if !field.Exists() { // the reader added the volume
			field = template
		}
		for _, item := range volume.DownwardAPI.Items {
			if item.FieldRef != nil {
				visit(item.FieldRef.FieldPath, fmt.Sprintf("file %s of volume %s", item.Path, volume.Name), field)
			}
		}
	}
}

// FindEnvField returns the place of a variable of a container, or the template if the template does not have
// it.
func FindEnvField(template source.Field, container, name string) source.Field {
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range template.At("spec", list).Items() {
			if c.Get("name").String() != container {
				continue
			}
			for _, e := range c.Get("env").Items() {
				if e.Get("name").String() == name {
					return e
				}
			}
		}
	}
	return template
}
