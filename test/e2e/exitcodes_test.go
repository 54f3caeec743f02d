package e2e

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// stubborn ranks end with code 1 when they are told to stop, as torchrun does. The first
// time, rank 1 ends as if it had been killed.
const stubborn = `trap 'exit 1' TERM
if [ "$ROLLCALL_ATTEMPT" = 0 ] && [ "$RANK" = 1 ]; then sleep 4; exit 137; fi
i=0; while [ $i -lt 60 ]; do sleep 0.1; i=$((i+1)); done`

// TestRestartFinalCodes: ranks that are stopped for a restart may end with codes that would
// be final otherwise; the code of the first to fall is what counts. A podFailurePolicy
// with the same codes cannot tell: the Job fails while its ranks are stopped (docs/adr/0017).
func TestRestartFinalCodes(t *testing.T) {
	slow(t)
	s := here(t)
	for name, c := range map[string]struct {
		annotations map[string]string
		policy      *batchv1.PodFailurePolicy
		want        gang.Phase
	}{
		"annotation": {map[string]string{gang.AnnotationFinalCodes: "1-127"}, nil, gang.Succeeded},
		"podFailurePolicy": {nil, &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: ptr.To("trainer"), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{1}},
		}}}, gang.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			ns := s.namespace(t)
			s.program(t, ns, "run.sh", stubborn)
			spec := s.podSpec("sh", "run.sh")
			spec.RestartPolicy = corev1.RestartPolicyNever
			_, err := s.client.BatchV1().Jobs(ns).Create(t.Context(), &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Name: "train", Labels: map[string]string{gang.LabelFramework: "pytorch"}, Annotations: c.annotations},
				Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), PodFailurePolicy: c.policy,
					Template: corev1.PodTemplateSpec{Spec: spec}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s.phase(t, ns, "train", c.want)
			j, err := s.client.BatchV1().Jobs(ns).Get(t.Context(), "train", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := gang.StatusOf(gang.Workload{Job: j}); got.Attempt != 1 {
				t.Errorf("the gang ended in attempt %d, so nothing was shown: %s", got.Attempt, got.Message)
			}
			t.Logf("%s: %s; conditions %v", name, gang.StatusOf(gang.Workload{Job: j}).Message, j.Status.Conditions)
		})
	}
}
