package check

import (
	_ "embed" // for the sample

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// invalidField is the field that the denial of the invalid Job names.
const invalidField = "spec.completions"

//go:embed sample.yaml
var sampleJob []byte

// newSampleJob returns a suspended Job of a gang of two ranks. A number of completions other than two makes it
// invalid for Rollcall, but not for Kubernetes.
func newSampleJob(name string, completions int32) *batchv1.Job {
	var job batchv1.Job
	if err := yaml.UnmarshalStrict(sampleJob, &job); err != nil {
		panic(err) // the file is part of the program
	}
	job.Name, job.Spec.Completions = name, ptr.To(completions)
	return &job
}
