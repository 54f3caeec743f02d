package controller

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// countLostRanks returns the number of completed indexes of a Job that have no pod. Pods that succeed
// remain until their Job is deleted, so such a rank was terminated by somebody else, exited with code
// 0, and was not observed.
func countLostRanks(w gang.Workload, pods []corev1.Pod) int32 {
	if w.Job == nil || w.Job.Status.CompletedIndexes == "" {
		return 0
	}
	hasPod := map[int32]bool{}
	for i := range pods {
		hasPod[gang.PodIndex(&pods[i])] = true
	}
	var lost int32
	for _, index := range parseIndexes(w.Job.Status.CompletedIndexes, w.Ranks()) {
		if !hasPod[index] {
			lost++
		}
	}
	return lost
}

// parseIndexes returns the indexes below size in the format of completedIndexes, such as "0,3-5".
func parseIndexes(text string, size int32) []int32 {
	var out []int32
	for interval := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(interval, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.ParseInt(first, 10, 32)
		to, errTo := strconv.ParseInt(last, 10, 32)
		if errFrom != nil || errTo != nil {
			continue
		}
		for i := from; i <= min(to, int64(size)-1); i++ {
			out = append(out, int32(i))
		}
	}
	return out
}
