package webhook_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/recorded"
	"rollcall.training/internal/webhook"
)

// TestUpdateOfEarlierBuild checks updates of workloads that an earlier build injected. None of them may change
// the pod template: it is immutable in a Job, and a StatefulSet would restart its ranks.
func TestUpdateOfEarlierBuild(t *testing.T) {
	updates := map[string]func(*testing.T, gang.Workload) []byte{
		"an empty patch": func(t *testing.T, w gang.Workload) []byte { return marshalJSON(t, w.Object()) },
		"an annotation and a label of the user": func(t *testing.T, w gang.Workload) []byte {
			return mergePatch(t, marshalJSON(t, w.Object()),
				`{"metadata":{"annotations":{"example.com/note":"x"},"labels":{"example.com/team":"x"}}}`)
		},
		"a mutable annotation of Rollcall": func(t *testing.T, w gang.Workload) []byte {
			return mergePatch(t, marshalJSON(t, w.Object()),
				fmt.Sprintf(`{"metadata":{"annotations":{%q:"7"}}}`, gang.AnnotationMaxRestarts))
		},
		"a suspension": func(t *testing.T, w gang.Workload) []byte {
			patch := `{"spec":{"suspend":true}}`
			if w.StatefulSet != nil {
				patch = `{"spec":{"replicas":0}}`
			}
			return mergePatch(t, marshalJSON(t, w.Object()), patch)
		},
		"a resumption": func(t *testing.T, w gang.Workload) []byte {
			patch := `{"spec":{"suspend":false}}`
			if w.StatefulSet != nil {
				patch = `{"spec":{"replicas":2}}`
			}
			return mergePatch(t, marshalJSON(t, w.Object()), patch)
		},
		"a replacement by the manifest": func(t *testing.T, w gang.Workload) []byte {
			return marshalJSON(t, newManifestOf(w).Object())
		},
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{Build: "this"})
	forEachRecorded(t, func(t *testing.T, w gang.Workload) {
		for name, update := range updates {
			if w.Job != nil && name == "a replacement by the manifest" {
				continue // the API server denies it before admission, because the template is immutable
			}
			t.Run(name, func(t *testing.T) {
				before := marshalJSON(t, w.Object())
				after := admitRaw(t, engine, admissionv1.Update, w, before, update(t, w.DeepCopy()))
				if diff := cmp.Diff(w.Template(), after.Template(), cmpopts.EquateEmpty(), ignoreAttempt(w)); diff != "" {
					t.Errorf("the pod template changed (-before +after):\n%s", diff)
				}
				if got := after.Meta().Annotations[gang.AnnotationInjected]; got != w.Meta().Annotations[gang.AnnotationInjected] {
					t.Errorf("the record changed to %s", got)
				}
			})
		}
	})
}

// TestCreateOfEarlierBuild checks the creation of a workload that an earlier build injected: a webhook of that
// build mutated the request and one of this build validates it, or a user applies a saved object again.
func TestCreateOfEarlierBuild(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{Build: "this"})
	forEachRecorded(t, func(t *testing.T, w gang.Workload) {
		created := w.DeepCopy()
		meta := created.Meta()
		meta.UID, meta.CreationTimestamp, meta.Generation = "", metav1.Time{}, 0
		delete(meta.Annotations, gang.AnnotationStatus)
		meta.Labels[gang.LabelPhase] = string(lifecycle.Pending)
		if created.Job != nil {
			created.Template().Labels[gang.LabelAttempt] = "0"
			// The API server sets them after admission.
			created.Job.Spec.Selector = nil
			for _, key := range []string{
				"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name",
			} {
				delete(created.Template().Labels, key)
				delete(meta.Labels, key)
			}
		}
		if created.StatefulSet != nil {
			created.StatefulSet.Spec.Replicas = ptr.To[int32](2) // admission restores the size of a suspended set
		}
		raw := marshalJSON(t, created.Object())
		t.Run("validated after the mutation by the earlier build", func(t *testing.T) {
			req := newRequest(admissionv1.Create, gang.Kind(w.GroupKind().Kind), nil, raw)
			if r := webhook.NewValidator(engine, nil).Handle(t.Context(), req); !r.Allowed {
				t.Errorf("denied: %s", r.Result.Message)
			}
		})
		t.Run("a saved object is applied again", func(t *testing.T) {
			admitRaw(t, engine, admissionv1.Create, w, nil, raw)
		})
	})
}

// forEachRecorded calls test as a subtest for each recorded workload.
func forEachRecorded(t *testing.T, test func(*testing.T, gang.Workload)) {
	t.Helper()
	builds, err := recorded.Builds()
	if err != nil || len(builds) == 0 {
		t.Fatalf("%d recorded builds, %v", len(builds), err)
	}
	for _, build := range builds {
		for _, w := range build.Workloads {
			t.Run(build.Commit+"/"+w.Meta().Name, func(t *testing.T) { test(t, w) })
		}
	}
}

// admitRaw sends a workload through both endpoints and returns the result.
func admitRaw(
	t *testing.T, e *injectors.Engine, operation admissionv1.Operation, w gang.Workload, old, raw []byte,
) gang.Workload {
	t.Helper()
	kind := gang.Kind(w.GroupKind().Kind)
	r := webhook.NewMutator(e, nil).Handle(t.Context(), newRequest(operation, kind, old, raw))
	if !r.Allowed {
		t.Fatalf("the mutator denied the workload: %s", r.Result.Message)
	}
	raw = applyPatch(t, raw, r)
	if r := webhook.NewValidator(e, nil).Handle(t.Context(), newRequest(operation, kind, old, raw)); !r.Allowed {
		t.Fatalf("the validator denied the workload: %s", r.Result.Message)
	}
	return decodeWorkload(t, kind, raw)
}

// newManifestOf returns the manifest of a recorded StatefulSet: what its user wrote.
func newManifestOf(w gang.Workload) gang.Workload {
	live, manifest := w.StatefulSet, w.StatefulSet.DeepCopy()
	manifest.ObjectMeta = metav1.ObjectMeta{
		Name: live.Name, Namespace: live.Namespace, UID: live.UID, ResourceVersion: live.ResourceVersion,
		Labels: map[string]string{}, Annotations: map[string]string{},
	}
	for key, value := range live.Labels {
		if !gang.IsWrittenByRollcall(key) {
			manifest.Labels[key] = value
		}
	}
	for key, value := range live.Annotations {
		if !gang.IsWrittenByRollcall(key) {
			manifest.Annotations[key] = value
		}
	}
	spec, container := live.Spec.Template.Spec, live.Spec.Template.Spec.Containers[0]
	manifest.Spec.ServiceName = ""
	manifest.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: live.Spec.Selector.MatchLabels},
		// The API server sets defaults before admission.
		Spec: corev1.PodSpec{
			EnableServiceLinks: ptr.To(true), RestartPolicy: spec.RestartPolicy, DNSPolicy: spec.DNSPolicy,
			SchedulerName: spec.SchedulerName, SecurityContext: spec.SecurityContext,
			TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
			Containers: []corev1.Container{{
				Name: container.Name, Image: container.Image, ImagePullPolicy: container.ImagePullPolicy,
				TerminationMessagePath:   container.TerminationMessagePath,
				TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
	}
	return gang.Workload{StatefulSet: manifest}
}

// ignoreAttempt ignores the label with the number of the attempt, which admission sets when a queue resumes a
// restarting Job.
func ignoreAttempt(w gang.Workload) cmp.Option {
	if w.QueueName() == "" {
		return cmp.Options{}
	}
	return cmpopts.IgnoreMapEntries(func(key, _ string) bool { return key == gang.LabelAttempt })
}
