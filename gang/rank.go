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

// maxRankLabelValue is the maximum offset and the maximum index. With at most nine digits the sum
// fits in an int32. It is far above the API server's maximum number of pods of a Job.
const maxRankLabelValue = 999_999_999

// rankLabelPattern matches an index or an offset without leading zeros. The admission policy of the
// chart has the same expression (charts/rollcall/templates/rank.yaml), so every cluster rejects the
// same pods.
var rankLabelPattern = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// PodRank returns the rank of a pod of a multi-workload gang by the pod's labels: the index within
// its workload plus [LabelRankOffset]. The index is in the label that the controller of the workload
// sets ([Workload.IndexLabel]). PodRank ignores [LabelRank].
//
// The list contains the reasons why the pod has no rank: a missing label, a value that is not a
// whole number from 0 to 999999999, or two index labels. It is empty if the rank is valid.
func PodRank(labels map[string]string) (int32, field.ErrorList) {
	if _, ok := labels[LabelRankOffset]; !ok {
		return 0, field.ErrorList{field.Required(labelsPath.Key(LabelRankOffset),
			"without it the rank is the pod's index")}
	}
	var indexLabels []string
	for _, name := range []string{batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel} {
		if _, ok := labels[name]; ok {
			indexLabels = append(indexLabels, name)
		}
	}
	switch len(indexLabels) {
	case 0:
		return 0, field.ErrorList{field.Required(labelsPath, fmt.Sprintf(
			"the pod has %s, but no index: pods of an Indexed Job have %s, pods of a StatefulSet have %s; "+
				"set spec.completionMode: Indexed on the Job, or remove %s from the pod template",
			LabelRankOffset, batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel, LabelRankOffset))}
	case 2:
		return 0, field.ErrorList{field.Forbidden(labelsPath, fmt.Sprintf(
			"the pod has two indexes, %s; remove from the pod template the label that the pod's controller does not set",
			strings.Join(indexLabels, " and ")))}
	}
	var errs field.ErrorList
	parse := func(name, fix string) int32 {
		if !rankLabelPattern.MatchString(labels[name]) {
			errs = append(errs, field.Invalid(labelsPath.Key(name), labels[name],
				fmt.Sprintf("must be a whole number from 0 to %d; %s", maxRankLabelValue, fix)))
			return 0
		}
		n, _ := strconv.ParseInt(labels[name], 10, 32) // nine digits always fit
		return int32(n)
	}
	rank := parse(LabelRankOffset, "remove it from the pod template, because Rollcall sets it") +
		parse(indexLabels[0], "the pod's controller sets it")
	if len(errs) > 0 {
		return 0, errs
	}
	return rank, nil
}
