package attempt

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
)

// TestResetJobStatusRequeues checks when the reset of a Job changes its maximum execution time, so that Kueue replaces
// its Workload.
func TestResetJobStatusRequeues(t *testing.T) {
	queued := func(labels ...string) map[string]string {
		out := map[string]string{gang.LabelQueueName: "team"}
		for i := 0; i < len(labels); i += 2 {
			out[labels[i]] = labels[i+1]
		}
		return out
	}
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		completed           string
		want                string
	}{
		"a Job without a queue has no Workload": {completed: "1"},
		"no rank has completed":                 {labels: queued()},
		"a Job without a maximum gets the longest": {
			labels: queued(), completed: "1", want: "2147483647",
		},
		"the longest maximum becomes shorter": {
			labels: queued(gang.LabelMaxExecutionTime, "2147483647"), completed: "1", want: "2147483646",
		},
		"the maximum of the user becomes a second longer": {
			labels: queued(gang.LabelMaxExecutionTime, "3600"), completed: "1", want: "3601",
		},
		"Kueue does not replace a Workload in a label": {
			labels: queued(gang.LabelPrebuiltWorkload, "train"), completed: "1",
		},
		"Kueue does not replace a Workload in an annotation": {
			labels: queued(), annotations: map[string]string{gang.LabelPrebuiltWorkload: "train"}, completed: "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{}
			job.Labels, job.Annotations = c.labels, c.annotations
			if c.completed != "" {
				job.Status.Succeeded, job.Status.CompletedIndexes = 1, c.completed
			}
			if got := ResetJobStatus(job, true); got != (c.completed != "") {
				t.Errorf("the status was reset: %t", got)
			}
			if diff := cmp.Diff(c.want, job.Labels[gang.LabelMaxExecutionTime]); diff != "" {
				t.Errorf("maximum execution time (-want +got):\n%s", diff)
			}
		})
	}
}
