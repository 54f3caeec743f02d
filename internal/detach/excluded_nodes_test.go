package detach_test

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"rollcall.training/gang"
	"rollcall.training/internal/detach"
	"rollcall.training/internal/lifecycle"
)

// TestDetachExcludedNodes checks that the template of a detached Job is that of the user.
func TestDetachExcludedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := newRestartingJob(t)
		w := gang.Workload{Job: job}
		w.ReplaceExcludedNodes(nil, []string{"node-b"})
		status := lifecycle.ReadStatus(w)
		status.ExcludedNodes = []string{"node-b"}
		if err := status.WriteTo(w); err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset(job)
		runDetach(t, client, detach.Detacher{})
		after, err := client.BatchV1().Jobs("team").Get(t.Context(), job.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if after.Spec.Template.Spec.Affinity != nil || *after.Spec.Suspend {
			t.Errorf("suspended %t, affinity %v", *after.Spec.Suspend, after.Spec.Template.Spec.Affinity)
		}
	})
}
