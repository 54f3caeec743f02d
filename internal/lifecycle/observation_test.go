package lifecycle_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestObserveFinishing checks that a Job that has finished no longer finishes. Its gang would otherwise
// ignore the failures of all other members.
func TestObserveFinishing(t *testing.T) {
	const isMet, isComplete = batchv1.JobSuccessCriteriaMet, batchv1.JobComplete
	const willFail, hasFailed = batchv1.JobFailureTarget, batchv1.JobFailed
	for name, c := range map[string]struct {
		conditions []batchv1.JobConditionType
		want       bool
	}{
		"the Job runs":                             {},
		"the pods of the Job terminate":            {conditions: []batchv1.JobConditionType{isMet}, want: true},
		"the Job is complete":                      {conditions: []batchv1.JobConditionType{isMet, isComplete}},
		"the pods of the Job that fails terminate": {conditions: []batchv1.JobConditionType{willFail}, want: true},
		"the Job has failed":                       {conditions: []batchv1.JobConditionType{willFail, hasFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{}
			for _, condition := range c.conditions {
				job.Status.Conditions = append(job.Status.Conditions,
					batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
			}
			if got := lifecycle.Observe(gang.Workload{Job: job}).Finishing; got != c.want {
				t.Errorf("finishing %v, want %v", got, c.want)
			}
		})
	}
}
