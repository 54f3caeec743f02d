package vet

import (
	"encoding/json"
	"strings"

	"rollcall.training/manifest"
)

// A CronJob is no workload, but the Jobs that it makes may be. It is looked at as the
// Job of one run.

// jobTemplate is the path of what the Jobs are made of.
const jobTemplate = "spec.jobTemplate."

// run is what a CronJob's controller appends to its name: the scheduled time in minutes,
// which has 8 digits until the year 2160 (kubernetes pkg/controller/cronjob, getJobName).
const run = "-00000000"

// jobOf is the Job that a CronJob makes; false for other objects, and where that cannot
// be told.
func jobOf(o manifest.Object) (manifest.Object, bool) {
	if o.Kind != "CronJob" || o.APIVersion != "batch/v1" {
		return o, false
	}
	var cron struct {
		Spec struct {
			JobTemplate map[string]any `json:"jobTemplate"`
		} `json:"spec"`
	}
	if o.Decode(&cron) != nil || cron.Spec.JobTemplate == nil {
		return o, false
	}
	tree := cron.Spec.JobTemplate
	meta, ok := tree["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
	}
	o.Kind, o.Name = "Job", o.Name+run
	meta["name"] = o.Name
	tree["apiVersion"], tree["kind"], tree["metadata"] = o.APIVersion, o.Kind, meta
	text, err := json.Marshal(tree)
	if err != nil {
		return o, false
	}
	o.Labels, o.Annotations = texts(meta["labels"]), texts(meta["annotations"])
	o.Text = text
	return o, true
}

func texts(v any) map[string]string {
	out := map[string]string{}
	tree, _ := v.(map[string]any)
	for k, v := range tree {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// path is the field of the object in which that of the workload stands.
func (s *subject) path(field string) string {
	if !s.cron || field == "metadata.name" {
		return field
	}
	return strings.TrimSuffix(jobTemplate+field, ".")
}
