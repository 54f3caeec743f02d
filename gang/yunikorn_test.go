package gang_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
)

// TestApplicationOfAttempt checks that each attempt of a gang is a new application of YuniKorn.
func TestApplicationOfAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		application, attempt, want string
	}{
		"the first restart is a new application": {
			application: "train-1f-attempt-0", attempt: "0", want: "train-1f-attempt-7",
		},
		"a later restart is a new application": {
			application: "train-1f-attempt-6", attempt: "6", want: "train-1f-attempt-7",
		},
		"the application of another attempt stays": {
			application: "train-1f-attempt-3", attempt: "6", want: "train-1f-attempt-3",
		},
		"the application of the user stays":           {application: "train", attempt: "0", want: "train"},
		"pods of other schedulers get no application": {attempt: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{}
			job.Spec.Template.Labels = map[string]string{gang.LabelAttempt: test.attempt}
			if test.application != "" {
				job.Spec.Template.Labels[gang.LabelYuniKornApplication] = test.application
			}
			if !(gang.Workload{Job: job}).SetAttempt(7) {
				t.Error("the attempt did not change")
			}
			got, exists := job.Spec.Template.Labels[gang.LabelYuniKornApplication]
			if got != test.want || exists != (test.application != "") {
				t.Errorf("the application is %q, want %q", got, test.want)
			}
		})
	}
}
