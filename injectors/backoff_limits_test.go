package injectors_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// jobLimits are the limits of a Job on failed pods, and the restarts that the gang derives from them.
type jobLimits struct {
	BackoffLimit, BackoffLimitPerIndex, MaxFailedIndexes *int32
	MaxRestarts                                          int32
	// RestartsInPlace means that a failed container restarts in its pod, which then does not count.
	RestartsInPlace bool
}

func readJobLimits(t *testing.T, engine *injectors.Engine, job *batchv1.Job) jobLimits {
	t.Helper()
	result, err := engine.Describe(gang.Workload{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	return jobLimits{
		BackoffLimit:         job.Spec.BackoffLimit,
		BackoffLimitPerIndex: job.Spec.BackoffLimitPerIndex,
		MaxFailedIndexes:     job.Spec.MaxFailedIndexes,
		MaxRestarts:          result.Gang.RestartRules.MaxRestarts,
		RestartsInPlace:      len(job.Spec.Template.Spec.Containers[0].RestartPolicyRules) > 0,
	}
}

// TestLimits checks that the limits of a Job on failed pods exceed the restarts of its gang and are
// finite, unless its user set a limit. Only with such a limit, failed containers restart in their pods. A second
// injection changes neither the limits nor the number of restarts.
func TestLimits(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	unlimited, apiServerDefault := ptr.To(gang.UnlimitedBackoffLimit), ptr.To[int32](6)
	zero, two, four, five := ptr.To[int32](0), ptr.To[int32](2), ptr.To[int32](4), ptr.To[int32](5)
	// Four failures in a row of a rank for each of its attempts, and 100 disruptions.
	attempts := func(n int32) *int32 { return ptr.To(4*n + 100) }
	sumOfRanks := func(n, ranks int32) *int32 { return ptr.To(*attempts(n) * ranks) }
	setRestartPolicy := func(j *batchv1.Job, policy gang.RestartPolicy) {
		j.Annotations[gang.AnnotationRestartPolicy] = string(policy)
	}
	for name, c := range map[string]struct {
		change func(*batchv1.Job)
		want   jobLimits
	}{
		"manifest without the defaults of the API server": {
			change: func(*batchv1.Job) {},
			want: jobLimits{
				BackoffLimit: unlimited, BackoffLimitPerIndex: attempts(4), MaxFailedIndexes: zero, MaxRestarts: 3,
			},
		},
		"default of the API server": {
			change: func(j *batchv1.Job) { j.Spec.BackoffLimit = apiServerDefault },
			want: jobLimits{
				BackoffLimit: unlimited, BackoffLimitPerIndex: attempts(4), MaxFailedIndexes: zero, MaxRestarts: 3,
			},
		},
		"backoffLimit of the user sets the number of restarts": {
			change: func(j *batchv1.Job) { j.Spec.BackoffLimit = four },
			want: jobLimits{
				BackoffLimit: four, BackoffLimitPerIndex: attempts(5), MaxFailedIndexes: zero, MaxRestarts: 4,
				RestartsInPlace: true,
			},
		},
		"next to backoffLimitPerIndex, a backoffLimit of 6 is not a default": {
			change: func(j *batchv1.Job) { j.Spec.BackoffLimit, j.Spec.BackoffLimitPerIndex = apiServerDefault, two },
			want: jobLimits{
				BackoffLimit: apiServerDefault, BackoffLimitPerIndex: two, MaxFailedIndexes: zero, MaxRestarts: 3,
				RestartsInPlace: true,
			},
		},
		"next to backoffLimitPerIndex, the default of the API server is unlimited": {
			change: func(j *batchv1.Job) { j.Spec.BackoffLimit, j.Spec.BackoffLimitPerIndex = unlimited, two },
			want: jobLimits{
				BackoffLimit: unlimited, BackoffLimitPerIndex: two, MaxFailedIndexes: zero, MaxRestarts: 3,
				RestartsInPlace: true,
			},
		},
		"maxFailedIndexes is preserved without backoffLimitPerIndex": {
			change: func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = four },
			want: jobLimits{
				BackoffLimit: unlimited, BackoffLimitPerIndex: attempts(4), MaxFailedIndexes: four, MaxRestarts: 3,
			},
		},
		"maxFailedIndexes is preserved": {
			change: func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = two, four },
			want:   jobLimits{BackoffLimitPerIndex: two, MaxFailedIndexes: four, MaxRestarts: 3, RestartsInPlace: true},
		},
		"pods that restart in place have a limit for the sum of all ranks": {
			change: func(j *batchv1.Job) {
				j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
				j.Spec.BackoffLimit = apiServerDefault
			},
			want: jobLimits{BackoffLimit: sumOfRanks(4, 4), MaxRestarts: 3},
		},
		"limit for the sum of all ranks of a gang without restarts": {
			change: func(j *batchv1.Job) {
				j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
				j.Annotations[gang.AnnotationMaxRestarts] = "0"
			},
			want: jobLimits{BackoffLimit: sumOfRanks(1, 4), MaxRestarts: 0},
		},
		"limit for the sum of all ranks does not exceed the range of the field": {
			change: func(j *batchv1.Job) {
				j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
				j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](10_000), ptr.To[int32](10_000)
				j.Annotations[gang.AnnotationMaxRestarts] = "1000"
			},
			want: jobLimits{BackoffLimit: sumOfRanks(1001, 10_000), MaxRestarts: 1000},
		},
		"pods that restart in place keep the backoffLimit of the user": {
			change: func(j *batchv1.Job) {
				j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
				j.Spec.BackoffLimit = five
			},
			want: jobLimits{BackoffLimit: five, MaxRestarts: 5},
		},
		"the annotation max-restarts sets the number of restarts": {
			change: func(j *batchv1.Job) {
				j.Spec.BackoffLimit = apiServerDefault
				j.Annotations[gang.AnnotationMaxRestarts] = "9"
			},
			want: jobLimits{
				BackoffLimit: unlimited, BackoffLimitPerIndex: attempts(10), MaxFailedIndexes: zero, MaxRestarts: 9,
			},
		},
		"restart policy pod keeps the limits of the Job": {
			change: func(j *batchv1.Job) {
				setRestartPolicy(j, gang.RestartPolicyPod)
				j.Spec.BackoffLimit = apiServerDefault
			},
			want: jobLimits{BackoffLimit: apiServerDefault, MaxRestarts: 3},
		},
		"restart policy never keeps the limits of the Job": {
			change: func(j *batchv1.Job) {
				setRestartPolicy(j, gang.RestartPolicyNever)
				j.Spec.BackoffLimit = apiServerDefault
			},
			want: jobLimits{BackoffLimit: apiServerDefault, MaxRestarts: 3},
		},
		"a backoffLimit of 0 allows no restart": {
			change: func(j *batchv1.Job) { j.Spec.BackoffLimit = zero },
			want:   jobLimits{BackoffLimit: zero, MaxRestarts: 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(map[string]string{}, 4)
			c.change(job)
			if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, readJobLimits(t, engine, job)); diff != "" {
				t.Errorf("limits after the first injection (-want +got):\n%s", diff)
			}
			result, err := engine.Admit(gang.Workload{Job: job})
			if err != nil {
				t.Fatal(err)
			}
			if result.Reason != gang.ReasonUnchanged {
				t.Errorf("the second injection has the reason %s, want %s", result.Reason, gang.ReasonUnchanged)
			}
			if diff := cmp.Diff(c.want, readJobLimits(t, engine, job)); diff != "" {
				t.Errorf("limits after the second injection (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLimitsReverted checks that a saved manifest with a new restart policy does not keep the limits
// that the engine set for the former policy.
func TestLimitsReverted(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newJob(map[string]string{}, 4)
	admit := func() jobLimits {
		t.Helper()
		if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
			t.Fatal(err)
		}
		return readJobLimits(t, engine, job)
	}
	admit()
	job.Annotations[gang.AnnotationRestartPolicy] = string(gang.RestartPolicyPod)
	if diff := cmp.Diff(jobLimits{MaxRestarts: 3}, admit()); diff != "" {
		t.Errorf("restart policy pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(jobLimits{MaxRestarts: 3}, admit()); diff != "" {
		t.Errorf("restart policy pod, second injection (-want +got):\n%s", diff)
	}
	job.Annotations[gang.AnnotationRestartPolicy] = string(gang.RestartPolicyGang)
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	want := jobLimits{BackoffLimit: ptr.To[int32]((4*4 + 100) * 4), MaxRestarts: 3}
	if diff := cmp.Diff(want, admit()); diff != "" {
		t.Errorf("restart policy gang with pods that restart in place (-want +got):\n%s", diff)
	}
}

// TestLimitsOfOlderBuild checks a saved manifest of a build that recorded unlimited values. The limits of
// this build replace them.
func TestLimitsOfOlderBuild(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newJob(map[string]string{}, 4)
	unlimited := gang.UnlimitedBackoffLimit
	job.Spec.BackoffLimit, job.Spec.BackoffLimitPerIndex = &unlimited, &unlimited
	job.Annotations[gang.AnnotationInjected] = `{"injector":"pytorch","fields":` +
		`{"backoffLimit":"2147483647","backoffLimitPerIndex":"2147483647"}}`
	if got := readJobLimits(t, engine, job); got.MaxRestarts != gang.DefaultMaxRestarts {
		t.Errorf("the running Job of the older build has %d restarts, want %d", got.MaxRestarts, gang.DefaultMaxRestarts)
	}
	if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	want := jobLimits{
		BackoffLimit: &unlimited, BackoffLimitPerIndex: ptr.To[int32](116), MaxFailedIndexes: ptr.To[int32](0),
		MaxRestarts: 3,
	}
	if diff := cmp.Diff(want, readJobLimits(t, engine, job)); diff != "" {
		t.Errorf("limits after the injection (-want +got):\n%s", diff)
	}
}
