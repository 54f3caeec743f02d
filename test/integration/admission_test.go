package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rollcall.training/gang"
	"rollcall.training/test/wait"
)

func envByName(c corev1.Container) map[string]string {
	out := map[string]string{}
	for _, e := range c.Env {
		out[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			out[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	return out
}

// testJobAdmitted checks the pods and the Service that the real controllers make from an injected
// Job.
func testJobAdmitted(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newJob("train", 3))
	service := m.waitForService(t, ns, "train")
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("the Service is not headless, or does not publish ranks that are not ready: %+v", service.Spec)
	}
	if len(service.OwnerReferences) != 1 || service.OwnerReferences[0].Kind != "Job" {
		t.Errorf("the Job does not own the Service: %+v", service.OwnerReferences)
	}
	for rank, p := range m.waitForPods(t, ns, "train", 3) {
		if want := fmt.Sprintf("train-%d", rank); p.Spec.Hostname != want || p.Spec.Subdomain != "train" {
			t.Errorf("rank %d is %s.%s, want %s.train", rank, p.Spec.Hostname, p.Spec.Subdomain, want)
		}
		got := envByName(p.Spec.Containers[0])
		for name, want := range map[string]string{
			"MASTER_ADDR":           "train-0.train." + ns + ".svc.cluster.local",
			"WORLD_SIZE":            "3",
			"RANK":                  "$(JOB_COMPLETION_INDEX)",
			gang.EnvCompletionIndex: "metadata.labels['batch.kubernetes.io/job-completion-index']",
		} {
			if got[name] != want {
				t.Errorf("rank %d: %s is %q, want %q", rank, name, got[name], want)
			}
		}
		if p.Labels[batchv1.JobCompletionIndexAnnotation] != fmt.Sprint(rank) {
			t.Errorf("rank %d has the index label %q", rank, p.Labels[batchv1.JobCompletionIndexAnnotation])
		}
	}
}

// testDryRun checks that a dry run returns the same object as a creation and creates nothing.
func testDryRun(t *testing.T, m *manager, ns string) {
	dry, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), newJob("train", 2), metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	// The reconciler handles this Job after it would have handled the dry run.
	m.createJob(t, ns, newJob("later", 2))
	m.waitForService(t, ns, "later")
	if _, err := m.Client.CoreV1().Services(ns).Get(
		t.Context(), "train", metav1.GetOptions{},
	); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run had an effect: %v", err)
	}
	created := m.createJob(t, ns, newJob("train", 2))
	strip := func(s corev1.PodTemplateSpec) corev1.PodTemplateSpec {
		for _, l := range []string{"controller-uid", batchv1.ControllerUidLabel} {
			delete(s.Labels, l)
		}
		return s
	}
	if diff := cmp.Diff(strip(dry.Spec.Template), strip(created.Spec.Template)); diff != "" {
		t.Errorf("dry run and creation differ:\n%s", diff)
	}
}

// testJobDenied checks that one denial lists all errors, with the code of an invalid object.
func testJobDenied(t *testing.T, m *manager, ns string) {
	bad := newJob("train", 2)
	bad.Labels[gang.LabelFramework] = "pytroch"
	bad.Annotations = map[string]string{gang.AnnotationPort: "0"}
	_, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), bad, metav1.CreateOptions{})
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("want a denial, got %v", err)
	}
	s := status.Status()
	if s.Code != http.StatusUnprocessableEntity || s.Reason != metav1.StatusReasonInvalid {
		t.Errorf("denied with %d %s, want 422 Invalid", s.Code, s.Reason)
	}
	for _, want := range []string{`did you mean "pytorch"`, "must be a whole number from 1024 to 65535"} {
		if !strings.Contains(s.Message, want) {
			t.Errorf("the message does not contain %q: %s", want, s.Message)
		}
	}
	if s.Details == nil || len(s.Details.Causes) != 2 {
		t.Errorf("want 2 causes, got %+v", s.Details)
	}
}

// warningRecorder collects the warnings of the API server.
type warningRecorder struct {
	mu       sync.Mutex
	messages []string
}

func (w *warningRecorder) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages = append(w.messages, text)
}

func (m *manager) newWarningClient(t *testing.T) (kubernetes.Interface, *warningRecorder) {
	t.Helper()
	w := &warningRecorder{}
	config := m.Cluster.Config()
	config.WarningHandler = w
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, w
}

var _ rest.WarningHandler = (*warningRecorder)(nil)

// testJobLabeledAfterCreation checks that a label on an existing Job causes a warning and a status,
// and that the Job stays unchanged.
func testJobLabeledAfterCreation(t *testing.T, m *manager, ns string) {
	plain := newJob("train", 2)
	plain.Labels = nil
	plain.Finalizers = []string{"example.com/hold"}
	created := m.createJob(t, ns, plain)
	client, heard := m.newWarningClient(t)
	patch := []byte(`{"metadata":{"labels":{"` + gang.LabelFramework + `":"pytorch"}}}`)
	late, err := client.BatchV1().Jobs(ns).Patch(t.Context(), "train", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("labeling an existing Job: %v", err)
	}
	if diff := cmp.Diff(created.Spec, late.Spec); diff != "" {
		t.Errorf("the existing Job was changed:\n%s", diff)
	}
	if len(heard.messages) != 1 || !strings.Contains(heard.messages[0], "nothing was injected") {
		t.Errorf("warnings: %q", heard.messages)
	}
	wait.For(t, "the status of the Job", func(ctx context.Context) error {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && !strings.Contains(j.Annotations[gang.AnnotationStatus], string(gang.ReasonNotInjected)) {
			err = fmt.Errorf("status %q", j.Annotations[gang.AnnotationStatus])
		}
		return err
	})
	m.waitForEvent(t, ns, gang.ReasonNotInjected)
	if err := m.Client.BatchV1().Jobs(ns).Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := m.Client.BatchV1().Jobs(ns).Patch(
		t.Context(), "train", types.MergePatchType, free, metav1.PatchOptions{},
	); err != nil {
		t.Errorf("removing the finalizer: %v", err)
	}
}

// testJobOptedOut checks that Rollcall ignores a Job with the label inject: "false".
func testJobOptedOut(t *testing.T, m *manager, ns string) {
	off := newJob("train", 2)
	off.Labels[gang.LabelInject] = "false"
	created := m.createJob(t, ns, off)
	if _, injected := created.Annotations[gang.AnnotationInjected]; injected {
		t.Error("an opted-out Job was injected")
	}
	m.createJob(t, ns, newJob("later", 1))
	m.waitForService(t, ns, "later")
	now, err := m.Client.BatchV1().Jobs(ns).Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status := now.Annotations[gang.AnnotationStatus]; status != "" {
		t.Errorf("an opted-out Job has a status: %s", status)
	}
}
