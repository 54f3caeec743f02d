package integration

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestNamespaceSelector checks that the conditions of the chart value webhook.namespaceSelector apply to
// the controller as to the webhooks, and that the controller notices changed labels of a namespace.
func TestNamespaceSelector(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.NewWithChart(t, c, []string{"--set", "webhook.namespaceSelector.matchLabels.team=ml"})}
	excluded, included := m.createNamespace(t), m.createNamespace(t)
	m.labelNamespace(t, included, `{"team":"ml"}`)
	m.createJob(t, excluded, newJob("train", 1))
	wait.For(t, "a Job that admission injects", func(ctx context.Context) error {
		job, err := m.Client.BatchV1().Jobs(included).Create(ctx, newJob("train", 1), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if job.Annotations[gang.AnnotationInjected] != "" {
			return nil
		}
		// The webhook has not observed the label yet.
		background := metav1.DeletePropagationBackground
		options := metav1.DeleteOptions{PropagationPolicy: &background}
		if err := m.Client.BatchV1().Jobs(included).Delete(ctx, job.Name, options); err != nil {
			return err
		}
		return errors.New("the Job was not injected")
	})
	m.waitForService(t, included, "train")
	readStatus := func(ctx context.Context) (reportedStatus, error) {
		job, err := m.Client.BatchV1().Jobs(excluded).Get(ctx, "train", metav1.GetOptions{})
		return parseReportedStatus(gang.Workload{Job: job}), err
	}
	if s, err := readStatus(t.Context()); err != nil || s.Reason != "" {
		t.Errorf("in the excluded namespace, the manager wrote %+v (error: %v)", s, err)
	}
	m.labelNamespace(t, excluded, `{"team":"ml"}`)
	wait.For(t, "the report of the Job", func(ctx context.Context) error {
		s, err := readStatus(ctx)
		if err == nil && s.Reason != gang.ReasonNotInjected {
			err = errors.New("the Job has no status")
		}
		return err
	})
}

func (m *manager) labelNamespace(t *testing.T, name, labels string) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":` + labels + `}}`)
	if _, err := m.Client.CoreV1().Namespaces().Patch(
		t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
}
