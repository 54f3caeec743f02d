package detach_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"rollcall.training/gang"
	"rollcall.training/internal/detach"
	"rollcall.training/internal/lifecycle"
)

// TestDetachNodes checks that the template of a detached Job selects the nodes of the user: without the nodes that
// Rollcall excluded, without the preference for other nodes than suspects, and without those that the admission by a
// queue added.
func TestDetachNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := newRestartingJob(t)
		want := job.Spec.Template.Spec.DeepCopy()
		w := gang.Workload{Job: job}
		w.ReplaceExcludedNodes(nil, []string{"node-b"})
		w.ReplaceSuspectNodes(nil, []string{"node-c"})
		queueNodes, err := gang.QueueNodes{
			NodeSelector: map[string]string{"pool": "a100"},
			Tolerations:  []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		}.AddTo(&job.Spec.Template.Spec)
		if err != nil {
			t.Fatal(err)
		}
		status := lifecycle.ReadStatus(w)
		status.ExcludedNodes, status.SuspectNodes, status.QueueNodes = []string{"node-b"}, []string{"node-c"}, queueNodes
		if err := status.WriteTo(w); err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset(job)
		runDetach(t, client, detach.Detacher{})
		after, err := client.BatchV1().Jobs("team").Get(t.Context(), job.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if *after.Spec.Suspend {
			t.Error("the Job is suspended")
		}
		if diff := cmp.Diff(*want, after.Spec.Template.Spec, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("pod template (-want +got):\n%s", diff)
		}
	})
}
