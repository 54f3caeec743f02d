package migrate

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
)

// gangService is the headless Service that Rollcall creates for a gang.
type gangService struct {
	name string
	// workload is an injected workload of the gang, with its namespace.
	workload gang.Workload
}

// removeServices removes the headless Services of the input that Rollcall creates itself. A Service
// with another selector would prevent the gang from starting.
func (m *migration) removeServices() {
	m.result.Documents = slices.DeleteFunc(m.result.Documents, func(d *manifest.Document) bool {
		objects := d.Objects()
		if len(objects) != 1 || !m.replacesService(objects[0]) {
			return false
		}
		m.passedThrough = slices.DeleteFunc(m.passedThrough, func(o manifest.Object) bool { return o.Document == d })
		m.result.Reports = append(m.result.Reports, Report{
			Source: d.Source, Document: d.Number, Object: describeObject(objects[0]),
			Note: "left out, because Rollcall creates the headless Service of the gang",
		})
		return true
	})
}

// replacesService reports whether Rollcall creates a Service with the same name for the same pods.
func (m *migration) replacesService(o manifest.Object) bool {
	var service corev1.Service
	if o.Kind != "Service" || o.APIVersion != "v1" || o.Labels[gang.LabelGang] != "" || o.Decode(&service) != nil ||
		service.Spec.ClusterIP != corev1.ClusterIPNone {
		return false
	}
	namespace := m.namespaceOrDefault(o.Namespace)
	return slices.ContainsFunc(m.services, func(s gangService) bool {
		if s.name != o.Name || s.workload.Meta().Namespace != namespace {
			return false
		}
		return gang.ServiceMismatch(&service, withServerLabels(s.workload), gang.PublishAll) == "" ||
			m.selectsFormerPods(&service, namespace)
	})
}

// withServerLabels returns a workload with the labels that the API server adds to the pod template of
// a Job (kubernetes pkg/registry/batch/job/strategy.go).
func withServerLabels(w gang.Workload) gang.Workload {
	if w.Job == nil {
		return w
	}
	w = w.DeepCopy()
	for _, key := range []string{batchv1.JobNameLabel, "job-name"} {
		if _, ok := w.Job.Spec.Template.Labels[key]; !ok {
			metav1.SetMetaDataLabel(&w.Job.Spec.Template.ObjectMeta, key, w.Job.Name)
		}
	}
	return w
}

// selectsFormerPods reports whether a Service selects all pods of a gang by labels of its former
// system.
func (m *migration) selectsFormerPods(s *corev1.Service, namespace string) bool {
	selector := map[string]any{}
	for key, value := range s.Spec.Selector {
		selector[key] = value
	}
	terms := parseSelector("", selector)
	return slices.ContainsFunc(m.gangs, func(g migratedGang) bool {
		return m.namespaceOrDefault(g.Namespace) == namespace && g.isSelectedBy(terms) && g.translatesAll(terms)
	})
}
