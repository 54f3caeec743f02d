package vet

import (
	"encoding/json"
	"strings"

	"rollcall.training/internal/manifest"
)

// A CronJob is not a workload of a gang, but its Jobs can be. The checks read a CronJob as the Job
// of one run.

// jobTemplatePrefix is the path of the Job template in a CronJob, with a final period.
const jobTemplatePrefix = "spec.jobTemplate."

// cronJobNameSuffix stands for the suffix that the CronJob controller appends to the name of a Job.
// The suffix is the scheduled time in minutes, which has 8 digits until the year 2160 (getJobName
// in pkg/controller/cronjob of Kubernetes).
const cronJobNameSuffix = "-00000000"

// jobFromCronJob returns the Job of one run of a CronJob. It returns o and false if o is not a
// CronJob or has no valid Job template.
func jobFromCronJob(o manifest.Object) (manifest.Object, bool) {
	if o.Kind != "CronJob" || o.APIVersion != "batch/v1" {
		return o, false
	}
	var cronJob struct {
		Spec struct {
			JobTemplate map[string]any `json:"jobTemplate"`
		} `json:"spec"`
	}
	if o.Decode(&cronJob) != nil || cronJob.Spec.JobTemplate == nil {
		return o, false
	}
	tree := cronJob.Spec.JobTemplate
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	job := o
	job.Kind, job.Name = "Job", o.Name+cronJobNameSuffix
	metadata["name"] = job.Name
	tree["apiVersion"], tree["kind"], tree["metadata"] = job.APIVersion, job.Kind, metadata
	text, err := json.Marshal(tree)
	if err != nil {
		return o, false
	}
	job.Labels, job.Annotations = stringValues(metadata["labels"]), stringValues(metadata["annotations"])
	job.JSON = text
	return job, true
}

// stringValues returns the entries of a JSON object that are strings. It returns an empty map if v
// is not an object.
func stringValues(v any) map[string]string {
	values := map[string]string{}
	tree, _ := v.(map[string]any)
	for key, value := range tree {
		if s, ok := value.(string); ok {
			values[key] = s
		}
	}
	return values
}

// fieldPath converts a path in the checked workload to the path in the object of the input. The two
// differ only for a CronJob.
func (o *inputObject) fieldPath(path string) string {
	if !o.isCronJob || path == "metadata.name" {
		return path
	}
	return strings.TrimSuffix(jobTemplatePrefix+path, ".")
}
