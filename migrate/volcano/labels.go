package volcano

import "rollcall.training/migrate/blueprint"

// indexMark is the label, and the annotation, with a pod's index in its task.
const indexMark = "volcano.sh/task-index"

// marks are the labels and annotations that Volcano gives to pods
// (job_controller_util.go, createJobPod; volcano.sh/apis, pkg/apis/batch/v1alpha1/labels.go).
func marks() map[string]blueprint.Mark {
	return map[string]blueprint.Mark{
		"volcano.sh/job-name": {Says: blueprint.SaysGang}, "volcano.sh/task-spec": {Says: blueprint.SaysRole}, indexMark: {Says: blueprint.SaysIndex},
		"volcano.sh/job-namespace": {}, "volcano.sh/queue-name": {}, "volcano.sh/job-version": {}, "volcano.sh/job-retry-count": {},
		"volcano.sh/template-uid": {}, "volcano.sh/task-priority": {},
	}
}
