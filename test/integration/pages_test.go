package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/test/pages"
)

// testPages follows task pages whose commands show no output of a program. Rank 0 of a gang that it completes
// succeeds when all ranks have been ready.
func testPages(t *testing.T, m *manager, _ string) {
	for _, page := range []string{"suspend", "configure-completion"} {
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
