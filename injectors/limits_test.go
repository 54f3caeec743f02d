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

// limited is what a Job says of its failed pods, and what the gang makes of that.
type limited struct {
	Backoff, PerIndex, MaxFailed *int32
	Restarts                     int32
}

func limitsOf(t *testing.T, engine *injectors.Engine, j *batchv1.Job) limited {
	t.Helper()
	r, err := engine.Describe(gang.Workload{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	return limited{j.Spec.BackoffLimit, j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes, r.Gang.Lifecycle.MaxRestarts}
}

// TestLimits: a Job whose gang restarts as one neither ends nor waits for the number of
// its failed pods, unless its user limits that; injected again it stays as it is, and so
// does the number of restarts that is derived from it.
func TestLimits(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	none := ptr.To(gang.NoLimit)
	six, four := ptr.To[int32](6), ptr.To[int32](4)
	onFailure := func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
	policy := func(p gang.RestartPolicy) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Annotations[gang.AnnotationRestartPolicy] = string(p) }
	}
	backoff := func(n *int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.BackoffLimit = n } }
	perIndex := func(n int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = &n }
	}
	for name, c := range map[string]struct {
		reason string
		change []func(*batchv1.Job)
		want   limited
	}{
		"from a file":          {"the API server has put no defaults yet", nil, limited{none, none, nil, 3}},
		"at admission":         {"6 is the API server's", []func(*batchv1.Job){backoff(six)}, limited{none, none, nil, 3}},
		"the user's":           {"kept, and the number of restarts", []func(*batchv1.Job){backoff(four)}, limited{four, none, nil, 4}},
		"the user's per index": {"both are kept: 6 is no default beside it", []func(*batchv1.Job){backoff(six), perIndex(2)}, limited{six, ptr.To[int32](2), nil, 3}},
		"the API server's beside the user's per index": {"no limit", []func(*batchv1.Job){backoff(none), perIndex(2)}, limited{none, ptr.To[int32](2), nil, 3}},
		"failed indexes":    {"kept", []func(*batchv1.Job){perIndex(2), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = four }}, limited{nil, ptr.To[int32](2), four, 3}},
		"pods that restart": {"backoffLimitPerIndex is for pods that never do", []func(*batchv1.Job){onFailure, backoff(six)}, limited{none, nil, nil, 3}},
		"max-restarts":      {"what the annotation says holds", []func(*batchv1.Job){backoff(six), func(j *batchv1.Job) { j.Annotations[gang.AnnotationMaxRestarts] = "9" }}, limited{none, none, nil, 9}},
		"pod":               {"the Job's own rules hold", []func(*batchv1.Job){policy(gang.RestartPod), backoff(six)}, limited{six, nil, nil, 3}},
		"never":             {"Rollcall ends it at the first fall", []func(*batchv1.Job){policy(gang.RestartNever), backoff(six)}, limited{six, nil, nil, 3}},
		"no try":            {"", []func(*batchv1.Job){backoff(ptr.To[int32](0))}, limited{ptr.To[int32](0), nil, nil, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: labelled("train", map[string]string{}), Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4), Template: *rank.DeepCopy()}}
			j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			for _, f := range c.change {
				f(j)
			}
			for _, time := range []string{"first", "second"} {
				r, err := engine.Admit(gang.Workload{Job: j})
				if err != nil {
					t.Fatal(err)
				}
				if time == "second" && r.Reason != gang.ReasonUnchanged {
					t.Errorf("injected again: %s", r.Reason)
				}
				if diff := cmp.Diff(c.want, limitsOf(t, engine, j)); diff != "" {
					t.Errorf("%s, the %s time (-want +got):\n%s", c.reason, time, diff)
				}
			}
		})
	}
}

// TestLimitsTakenBack: a saved manifest that is given another policy does not keep what
// was lifted for the one that it had.
func TestLimitsTakenBack(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	j := &batchv1.Job{ObjectMeta: labelled("train", map[string]string{}), Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4), Template: *rank.DeepCopy()}}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	admit := func() limited {
		t.Helper()
		if _, err := engine.Admit(gang.Workload{Job: j}); err != nil {
			t.Fatal(err)
		}
		return limitsOf(t, engine, j)
	}
	admit()
	j.Annotations[gang.AnnotationRestartPolicy] = string(gang.RestartPod)
	if diff := cmp.Diff(limited{nil, nil, nil, 3}, admit()); diff != "" {
		t.Errorf("left to the Job (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(limited{nil, nil, nil, 3}, admit()); diff != "" {
		t.Errorf("and again (-want +got):\n%s", diff)
	}
	j.Annotations[gang.AnnotationRestartPolicy] = string(gang.RestartGang)
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	if diff := cmp.Diff(limited{ptr.To(gang.NoLimit), nil, nil, 3}, admit()); diff != "" {
		t.Errorf("as a gang of pods that restart (-want +got):\n%s", diff)
	}
}
