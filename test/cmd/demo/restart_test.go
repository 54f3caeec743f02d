package main

import (
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

func TestFindDenial(t *testing.T) {
	const denial = `The Job "train" is invalid: spec.completions: Invalid value: 3`
	for _, test := range []struct{ reason, text, want string }{
		{"error of the demo's cluster", "kubectl apply -f x: exit status 1: " + denial, denial},
		{"error of the user's kubectl", "kubectl apply -f x: exit status 1\n" + denial + "\n", denial},
		{"another error", "kubectl apply -f x: signal: killed", "kubectl apply -f x: signal: killed"},
	} {
		if got := findDenial(errors.New(test.text)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
		}
	}
}

func TestTheFixOfTheManifestIsComplete(t *testing.T) {
	for _, test := range []struct {
		reason, manifest string
		valid            bool
	}{
		{"manifest with the mistake", trainManifest, false},
		{"fixed manifest", strings.Replace(trainManifest, mistake, fix, 1), true},
	} {
		_, text, _ := strings.Cut(test.manifest, "\n---\n")
		var job batchv1.Job
		if err := yaml.UnmarshalStrict([]byte(text), &job); err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		if image := job.Spec.Template.Spec.Containers[0].Image; image != imagePlaceholder ||
			strings.Count(test.manifest, imagePlaceholder) != 1 {
			t.Errorf("%s: the image is %s, and must be %s once", test.reason, image, imagePlaceholder)
		}
		if valid := *job.Spec.Parallelism == *job.Spec.Completions; valid != test.valid || job.Name != trainJob {
			t.Errorf("%s: Job %s with parallelism %d and %d completions",
				test.reason, job.Name, *job.Spec.Parallelism, *job.Spec.Completions)
		}
	}
}
