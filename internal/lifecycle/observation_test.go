package lifecycle_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// TestObserveResult checks that the result of a Job is final before its last pods have terminated. A pod on
// an unreachable node can stay for hours.
func TestObserveResult(t *testing.T) {
	const isMet, isComplete = batchv1.JobSuccessCriteriaMet, batchv1.JobComplete
	const willFail, hasFailed = batchv1.JobFailureTarget, batchv1.JobFailed
	for name, c := range map[string]struct {
		conditions               []batchv1.JobConditionType
		wantComplete, wantFailed bool
	}{
		"the Job runs":                  {},
		"the pods of the Job terminate": {conditions: []batchv1.JobConditionType{isMet}, wantComplete: true},
		"the Job is complete": {
			conditions: []batchv1.JobConditionType{isMet, isComplete}, wantComplete: true,
		},
		"the pods of the Job that fails terminate": {conditions: []batchv1.JobConditionType{willFail}, wantFailed: true},
		"the Job has failed": {
			conditions: []batchv1.JobConditionType{willFail, hasFailed}, wantFailed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{}
			for i, condition := range c.conditions {
				job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
					Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(podtest.At(i)),
				})
			}
			got := lifecycle.Observe(gang.Workload{Job: job})
			if got.Complete != c.wantComplete || got.Failed != c.wantFailed || got.Finishing {
				t.Errorf("complete %v, failed %v, finishing %v", got.Complete, got.Failed, got.Finishing)
			}
			if len(c.conditions) > 0 && !got.FinishTime.Equal(podtest.At(0)) {
				t.Errorf("finished at %s, want the time of the first condition", got.FinishTime)
			}
		})
	}
}
