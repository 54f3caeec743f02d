package injectors_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// TestDescribeEdited: nobody refuses what is written to the metadata of a Job that exists, and its gang stays the one
// that was admitted.
func TestDescribeEdited(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	for name, c := range map[string]struct {
		reason string
		edit   func(*batchv1.Job)
		want   gang.Lifecycle
		warns  string
	}{
		"not at all": {"", func(*batchv1.Job) {}, gang.Lifecycle{Restart: gang.RestartGang, MaxRestarts: 5, Clean: gang.CleanRunning}, ""},
		"garbled": {"it goes on with the default, rather than alone", func(j *batchv1.Job) { j.Annotations[gang.AnnotationMaxRestarts] = "many" },
			gang.Lifecycle{Restart: gang.RestartGang, MaxRestarts: 3, Clean: gang.CleanRunning}, gang.AnnotationMaxRestarts},
		"several": {"", func(j *batchv1.Job) {
			j.Annotations[gang.AnnotationMaxRestarts], j.Annotations[gang.AnnotationCleanPods], j.Annotations[gang.AnnotationPort] = "-1", "some", "http"
		}, gang.Lifecycle{Restart: gang.RestartGang, MaxRestarts: 3, Clean: gang.CleanRunning}, gang.AnnotationPort},
		"another framework": {"its pods were made for the one that it was", func(j *batchv1.Job) { j.Labels[gang.LabelFramework] = "jax" },
			gang.Lifecycle{Restart: gang.RestartGang, MaxRestarts: 5, Clean: gang.CleanRunning}, ""},
		"another role": {"", func(j *batchv1.Job) { j.Labels[gang.LabelRole] = "captain" },
			gang.Lifecycle{Restart: gang.RestartGang, MaxRestarts: 5, Clean: gang.CleanRunning}, ""},
		"held back": {"by its number of pods", func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](0) },
			gang.Lifecycle{Restart: gang.RestartGang, MaxRestarts: 5, Clean: gang.CleanRunning}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: labelled("train", map[string]string{gang.AnnotationMaxRestarts: "5"}),
				Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), Template: *rank.DeepCopy()}}
			if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
				t.Fatal(err)
			}
			c.edit(job)
			before := job.DeepCopy()
			r, err := engine.Describe(gang.Workload{Job: job})
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			l := r.Gang.Lifecycle
			if l.Restart != c.want.Restart || l.MaxRestarts != c.want.MaxRestarts || l.Clean != c.want.Clean || r.Gang.Size != 2 || r.Gang.Framework.Name != "pytorch" {
				t.Errorf("%s: it is a gang of %d of %s that lives by %+v", c.reason, r.Gang.Size, r.Gang.Framework.Name, l)
			}
			if got := strings.Join(engine.Slips(gang.Workload{Job: job}), "\n"); (got == "") != (c.warns == "") || !strings.Contains(got, c.warns) {
				t.Errorf("%s: it warns %q, want %q", c.reason, got, c.warns)
			}
			if !(gang.Workload{Job: job}).Equal(gang.Workload{Job: before}) {
				t.Error("the Job was changed by a look")
			}
		})
	}
	// Of a gang of several, a garbled annotation roles makes another gang, which it was not admitted as.
	job := &batchv1.Job{ObjectMeta: labelled("train-worker", map[string]string{gang.AnnotationRoles: "master=1,worker=2"}),
		Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), Template: *rank.DeepCopy()}}
	if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationRoles] = "many"
	if _, err := engine.Describe(gang.Workload{Job: job}); err == nil {
		t.Error("a member that says nothing of the others was read as a gang of its own")
	}
}
