package gang_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// TestServiceMismatch checks which Services of a user resolve the names of the ranks.
func TestServiceMismatch(t *testing.T) {
	for name, c := range map[string]struct {
		selector  map[string]string
		ranks     gang.PublishedRanks
		clusterIP string
		want      string
	}{
		"Service selects all pods": {selector: map[string]string{gang.LabelGang: "train"}, ranks: gang.PublishAll},
		"Service selects rank 0, and the others need no name": {
			selector: map[string]string{gang.LabelGang: "train", batchv1.JobCompletionIndexAnnotation: "0"},
			ranks:    gang.PublishRank0,
		},
		"Service selects rank 0, and the others need a name": {
			selector: map[string]string{gang.LabelGang: "train", batchv1.JobCompletionIndexAnnotation: "0"},
			ranks:    gang.PublishAll, want: "does not select the gang's pods",
		},
		"Service selects one attempt, and a restart starts the next": {
			selector: map[string]string{gang.LabelGang: "train", gang.LabelAttempt: "0"},
			ranks:    gang.PublishAll, want: "does not select the gang's pods",
		},
		"Service has a cluster IP": {
			selector: map[string]string{gang.LabelGang: "train"}, ranks: gang.PublishAll, clusterIP: "10.0.0.1",
			want: "is not headless",
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: c.selector}}
			if c.clusterIP != "" {
				service.Spec.ClusterIP = c.clusterIP
			}
			podLabels := map[string]string{gang.LabelGang: "train", gang.LabelAttempt: "0"}
			w := gang.Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels},
			}}}}
			if got := gang.ServiceMismatch(service, w, c.ranks); got != c.want {
				t.Errorf("mismatch %q, want %q", got, c.want)
			}
			if len(podLabels) != 2 {
				t.Errorf("the labels of the template were changed: %v", podLabels)
			}
		})
	}
}
