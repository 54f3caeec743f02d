package vet

import (
	"strings"

	"rollcall.training/internal/manifest"
)

// A CronJob is not a workload of a gang, but its Jobs can be. The checks read a CronJob as the Job
// of one run.

// fieldPath converts a path in the checked workload to the path in the object of the input. The two
// differ only for a CronJob.
func (o *inputObject) fieldPath(path string) string {
	if !o.isCronJob || path == "metadata.name" {
		return path
	}
	return strings.TrimSuffix(manifest.JobTemplatePrefix+path, ".")
}
