package ir

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
)

// Meaning is the fact that a label of the former system stated about a pod.
type Meaning int

// The meanings of labels.
const (
	// MeaningNone is any fact that no label of the new pods states.
	MeaningNone Meaning = iota
	// MeaningGang is the name of the job.
	MeaningGang
	// MeaningRole is the role of the pod in the terms of the former system:
	// [SourceNames.Role].
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
	// hasGang is false for a manifest that became plain Jobs only.
	hasGang bool
	hint    string
}

// LabelMapping returns the translation for the roles that b has so far.
func (b *Gang) LabelMapping() LabelMapping {
	l := LabelMapping{
		Gang: b.Name, Namespace: b.Namespace, sourceLabels: b.SourceLabels, roles: map[string]string{},
		hint: "select by " + batchv1.JobNameLabel,
	}
	workloads := b.planWorkloads()
	for i := range workloads {
		w := &workloads[i]
		if former := w.roles[0].SourceNames.Role; former != "" && len(w.roles) == 1 {
			l.roles[strings.ToLower(former)] = b.roleLabelValue(w)
		}
	}
	if l.hasGang = len(workloads) > 0; l.hasGang {
		l.hint = fmt.Sprintf("select by %s: %s", gang.LabelGang, b.Name)
		if len(workloads) > 1 {
			l.hint += ", and " + gang.LabelRole
		} else {
			l.hint += ", and " + workloads[0].indexLabel() + " for single pods"
		}
	}
	return l
}

// roleLabelValue returns the value of the role label of a workload's pods.
func (b *Gang) roleLabelValue(w *plannedWorkload) string {
	if w.Name != "" {
		return w.Name
	}
	f, _ := b.Frameworks.Find(b.Framework)
	return f.DefaultRole
}

// indexLabel returns the label with the index of a pod in its workload.
func (w *plannedWorkload) indexLabel() string {
	if w.StatefulSet {
		return appsv1.PodIndexLabel
	}
	return batchv1.JobCompletionIndexAnnotation
}

// FindSourceLabel returns the label of the former system with the given key. It returns false if
// the label is the user's. An empty value matches every value.
func (l LabelMapping) FindSourceLabel(key, value string) (SourceLabel, bool) {
	found, ok := l.sourceLabels[key]
	return found, ok && (value == "" || strings.HasPrefix(value, found.ValuePrefix))
}

// SourceLabelKeys returns the sorted labels of the former system.
func (l LabelMapping) SourceLabelKeys() []string { return slices.Sorted(maps.Keys(l.sourceLabels)) }

// RemovedLabels returns the labels of the former system that no pod has after the migration.
func (l LabelMapping) RemovedLabels() []string {
	return slices.DeleteFunc(l.SourceLabelKeys(), func(key string) bool {
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
	case found.Meaning == MeaningGang && l.hasGang:
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
