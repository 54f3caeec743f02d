package manifest

import "encoding/json"

// JobTemplatePrefix is the path of the Job template in a CronJob, with a final period.
const JobTemplatePrefix = "spec.jobTemplate."

// cronJobNameSuffix stands for the suffix that the CronJob controller appends to the name of a Job.
// The suffix is the scheduled time in minutes, which has 8 digits until the year 2160 (getJobName
// in pkg/controller/cronjob of Kubernetes).
const cronJobNameSuffix = "-00000000"

// JobOfCronJob returns the Job of one run of a CronJob, in the namespace of the CronJob. It returns o and
// false if o is not a CronJob or has no valid Job template.
func (o Object) JobOfCronJob() (Object, bool) {
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
	metadata["name"], metadata["namespace"] = job.Name, job.Namespace
	tree["apiVersion"], tree["kind"], tree["metadata"] = job.APIVersion, job.Kind, metadata
	text, err := json.Marshal(tree)
	if err != nil {
		return o, false
	}
	job.Labels, job.Annotations = stringMap(metadata["labels"]), stringMap(metadata["annotations"])
	job.JSON = text
	return job, true
}
