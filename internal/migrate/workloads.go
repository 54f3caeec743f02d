package migrate

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/migrate/workload"
)

// isWorkload reports whether the object is a Job or a StatefulSet.
func isWorkload(o manifest.Object) bool {
	switch gang.Kind(o.Kind) {
	case gang.Job:
		return o.APIVersion == batchv1.SchemeGroupVersion.String()
	case gang.StatefulSet:
		return o.APIVersion == appsv1.SchemeGroupVersion.String()
	}
	return false
}

// migrateWorkload makes a gang of a Job or a StatefulSet that a user wrote. A workload that is not a
// gang, or that needs no change, passes through.
func (m *migration) migrateWorkload(o manifest.Object, line func(path string) int) {
	var tree map[string]any
	renamed, err := m.decode(o, &tree)
	if err != nil {
		m.passThrough(o.Document) // the API server rejects it
		return
	}
	var recorder source.Recorder
	from := source.Object{Kind: o.Kind, Root: recorder.Root(tree), Context: m.newContext(o)}
	report := Report{
		Source: o.Document.Source, Document: o.Document.Number, Object: describeObject(o), Warnings: renamed,
	}
	w, _ := gang.NewWorkload(gang.Kind(o.Kind))
	if !from.Root.Decode(w.Object()) && !o.HasFrameworkLabel() {
		m.passThrough(o.Document)
		return
	}
	before := w.DeepCopy()
	err = workload.Convert(from, w)
	report.addErrors(recorder.Errors(), line)
	switch {
	case report.Failed():
	case errors.Is(err, source.ErrNoGang):
		report.Passthrough, report.Note = true, err.Error()
		m.passThrough(o.Document)
	case equality.Semantic.DeepEqual(before.Object(), w.Object()):
		m.checkAdmission(m.newEngine(), w, &Report{}) // its Service can be in the input
		m.passThrough(o.Document)
		return
	default:
		report.Entries = recorder.Entries()
		var docs []*manifest.Document
		docs, report = m.buildDocuments(o.Document, []runtime.Object{w.Object()}, report)
		m.result.Documents = append(m.result.Documents, docs...)
		m.passedThrough = append(m.passedThrough, o)
		if name := before.Template().Spec.Subdomain; name != "" && w.Template().Spec.Subdomain == "" {
			m.services = append(m.services, gangService{name: name, workload: m.inNamespace(w)})
		}
	}
	m.result.Reports = append(m.result.Reports, report)
}
