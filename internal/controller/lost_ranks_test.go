package controller

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/podtest"
)

func TestCountLostRanks(t *testing.T) {
	pods := []corev1.Pod{podtest.RankPod(0, podtest.Terminated(0, 20, false)), podtest.RankPod(1, nil)}
	for name, c := range map[string]struct {
		completedIndexes string
		want             int32
	}{
		"no rank is completed":              {},
		"completed rank has its pod":        {completedIndexes: "0"},
		"completed rank has no pod":         {completedIndexes: "0,3", want: 1},
		"several ranks":                     {completedIndexes: "0,2-4", want: 3},
		"indexes above the size of the Job": {completedIndexes: "5-1000000000", want: 1},
		"text that cannot be parsed":        {completedIndexes: "a-b,,-"},
	} {
		t.Run(name, func(t *testing.T) {
			w := gang.Workload{Job: &batchv1.Job{
				Spec:   batchv1.JobSpec{Parallelism: ptr.To[int32](6)},
				Status: batchv1.JobStatus{CompletedIndexes: c.completedIndexes},
			}}
			if got := countLostRanks(w, pods); got != c.want {
				t.Errorf("%d lost ranks, want %d", got, c.want)
			}
		})
	}
}
