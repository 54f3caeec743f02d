package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/test/pages"
	"rollcall.training/test/wait"
)

// testPages follows task pages whose commands show no output of a program. Rank 0 of a gang that it completes
// succeeds when all ranks have been ready.
func testPages(t *testing.T, m *manager, _ string) {
	for _, page := range []string{"suspend", "configure-completion", "monitor"} {
		t.Run(page, func(t *testing.T) {
			ns := m.createNamespace(t)
			m.runFakeKubelet(t, ns, nil)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				m.succeedRankZero(ctx, ns)
			}()
			t.Cleanup(func() { cancel(); <-ended })
			if n := pages.Follow(t, "../..", "docs/tasks/"+page+".md", m.Cluster, ns, "train:1"); n < 4 {
				t.Errorf("the page has only %d commands", n)
			}
		})
	}
}

// succeedRankZero lets rank 0 of running gangs with a success policy succeed.
func (m *manager) succeedRankZero(ctx context.Context, ns string) {
	for ctx.Err() == nil {
		jobs, err := m.Client.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{LabelSelector: gang.LabelPhase + "=Running"})
		pods, errPods := m.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		for i := 0; err == nil && errPods == nil && i < len(jobs.Items); i++ {
			j := jobs.Items[i]
			for _, p := range pods.Items {
				if j.Annotations[gang.AnnotationSuccessPolicy] != "" && strings.HasPrefix(p.Name, j.Name+"-0-") {
					p.Status.Phase, p.Status.ContainerStatuses = corev1.PodSucceeded, nil
					_, _ = m.Client.CoreV1().Pods(ns).UpdateStatus(ctx, &p, metav1.UpdateOptions{})
				}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// testPolicyPage follows the page about the policy of a cluster, with the policy of its values in force.
func testPolicyPage(t *testing.T, m *manager, ns string) {
	const page = "docs/tasks/enforce-a-policy.md"
	block := readManifest(t, page, "values.yaml")
	var values struct {
		Policy struct {
			File map[string]any `json:"file"`
		} `json:"policy"`
	}
	if err := yaml.Unmarshal([]byte(block), &values); err != nil {
		t.Fatal(err)
	}
	file := values.Policy.File
	file["apiVersion"], file["kind"] = "policy.rollcall.training/v1alpha1", "GangPolicy"
	policy, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	m.writePolicy(t, string(policy))
	wait.For(t, "the policy of the page", func(ctx context.Context) error {
		_, err := m.Client.BatchV1().Jobs(ns).Create(ctx, newLimitedJob("probe", 5), metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}}) // denied by the former policy
		return err
	})
	if n := pages.Follow(t, "../..", page, m.Cluster, ns, ""); n < 1 {
		t.Error("the page has no command")
	}
}
