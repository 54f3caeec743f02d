package gang_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// TestQueueNodes adds the nodes of a flavor to a template that requires disk=ssd and tolerates the taint user, and
// removes them.
func TestQueueNodes(t *testing.T) {
	newNodes := func(toleration string, labels ...string) gang.QueueNodes {
		n := gang.QueueNodes{NodeSelector: map[string]string{}, Tolerations: []corev1.Toleration{{Key: toleration}}}
		for i := 0; i < len(labels); i += 2 {
			n.NodeSelector[labels[i]] = labels[i+1]
		}
		return n
	}
	for name, test := range map[string]struct {
		flavor gang.QueueNodes
		want   gang.QueueNodes
		fails  bool
	}{
		"a flavor adds": {
			flavor: newNodes("gpu", "gpu", "a100"),
			want: gang.QueueNodes{NodeSelector: map[string]string{"disk": "ssd", "gpu": "a100"},
				Tolerations: []corev1.Toleration{{Key: "user"}, {Key: "gpu"}}},
		},
		"what the user wrote stays": {flavor: newNodes("user", "disk", "ssd"), want: newNodes("user", "disk", "ssd")},
		"other nodes than those of the user are an error": {
			flavor: newNodes("gpu", "disk", "hdd"), want: newNodes("user", "disk", "ssd"), fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			user := corev1.PodSpec{
				NodeSelector: map[string]string{"disk": "ssd"}, Tolerations: []corev1.Toleration{{Key: "user"}},
			}
			spec := *user.DeepCopy()
			added, err := test.flavor.AddTo(&spec)
			got := gang.QueueNodes{NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations}
			if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != test.fails {
				t.Errorf("error %v, added: -want, +got:\n%s", err, diff)
			}
			added.RemoveFrom(&spec)
			if diff := cmp.Diff(user, spec); diff != "" {
				t.Errorf("removed: -want, +got:\n%s", diff)
			}
		})
	}
}
