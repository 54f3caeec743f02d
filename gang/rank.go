package gang

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxRankTerm is the largest offset and the largest index: what nine digits hold, so
// that no sum leaves an int32. The API server takes no Job with so many pods.
const maxRankTerm = 999_999_999

// rankTerm is how Kubernetes writes an index and Rollcall an offset. The policies of
// the chart use the same expression (charts/rollcall/templates/rank.yaml), so that
// every cluster refuses the same pods.
var rankTerm = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// RankOf is the rank of a pod, by its labels, in a gang of several workloads: its
// index within its workload plus [LabelRankOffset]. The index is in the one label
// that the pod's controller sets, whichever kind of workload it is
// ([Workload.IndexLabel]).
//
// The list says why the pod has no rank, and is empty when it has one: a label is
// missing, is no whole number from 0 to 999999999, or there are two indexes and
// nobody can tell which counts. What [LabelRank] says is not looked at.
func RankOf(labels map[string]string) (int32, field.ErrorList) {
	if _, ok := labels[LabelRankOffset]; !ok {
		return 0, field.ErrorList{field.Required(labelsPath.Key(LabelRankOffset),
			"a pod without it has its index as its rank")}
	}
	var indexes []string
	for _, name := range []string{batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel} {
		if _, ok := labels[name]; ok {
			indexes = append(indexes, name)
		}
	}
	switch len(indexes) {
	case 0:
		return 0, field.ErrorList{field.Required(labelsPath, fmt.Sprintf(
			"the pod has %s, and no index to add it to: pods of an Indexed Job have %s, those of a StatefulSet %s; set spec.completionMode: Indexed on the Job, or remove %s from the pod template",
			LabelRankOffset, batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel, LabelRankOffset))}
	case 2:
		return 0, field.ErrorList{field.Forbidden(labelsPath, fmt.Sprintf(
			"the pod has two indexes, %s; remove from the pod template the one that its controller does not set", strings.Join(indexes, " and ")))}
	}
	var errs field.ErrorList
	term := func(name, fix string) int32 {
		if !rankTerm.MatchString(labels[name]) {
			errs = append(errs, field.Invalid(labelsPath.Key(name), labels[name],
				fmt.Sprintf("must be a whole number from 0 to %d; %s", maxRankTerm, fix)))
			return 0
		}
		n, _ := strconv.ParseInt(labels[name], 10, 32) // nine digits fit
		return int32(n)
	}
	rank := term(LabelRankOffset, "remove it from the pod template, Rollcall sets it") +
		term(indexes[0], "the pod's controller sets it")
	if len(errs) > 0 {
		return 0, errs
	}
	return rank, nil
}
