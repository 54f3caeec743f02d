package gang

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var testFrameworks = Frameworks{{Name: "test", Roles: []Role{{Name: "worker"}}, DefaultRole: "worker", Port: 29500}}

// newTestJob returns a labeled Job with n containers.
func newTestJob(n int) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name:        "train",
		Namespace:   "team",
		Labels:      map[string]string{LabelFramework: "test"},
		Annotations: map[string]string{},
	}}
	for i := range n {
		job.Spec.Template.Spec.Containers = append(job.Spec.Template.Spec.Containers,
			corev1.Container{Name: fmt.Sprintf("c%d", i)})
	}
	return job
}

// TestLimits checks the errors for workloads that exceed a bound.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*batchv1.Job)
		want   []string
	}{
		"workload within the bounds": {change: func(*batchv1.Job) {}},
		"annotation of the maximum length is parsed": {
			change: func(j *batchv1.Job) { j.Annotations[AnnotationPort] = strings.Repeat(" ", MaxAnnotationLength) },
			want:   []string{"metadata.annotations[rollcall.training/port]"},
		},
		"only the bound is reported": {
			change: func(j *batchv1.Job) {
				j.Annotations[AnnotationRoles] = strings.Repeat(",", MaxAnnotationLength+1)
				j.Annotations[AnnotationPort] = "x"
			},
			want: []string{"metadata.annotations[rollcall.training/roles]"},
		},
		"status may be longer than an annotation of the user": {
			change: func(j *batchv1.Job) { j.Annotations[AnnotationStatus] = strings.Repeat("x", MaxAnnotationLength+1) },
		},
		"label and name": {
			change: func(j *batchv1.Job) { j.Labels[LabelGang], j.Name = strings.Repeat("x", 64), strings.Repeat("x", 254) },
			want:   []string{"metadata.name", "metadata.labels[rollcall.training/gang]"},
		},
		"containers": {
			change: func(j *batchv1.Job) { j.Spec.Template = newTestJob(MaxContainers + 1).Spec.Template },
			want:   []string{"spec.template.spec.containers"},
		},
		"accelerators of a container": {
			change: func(j *batchv1.Job) {
				j.Spec.Template.Spec.Containers[0].Resources = newGPUs(MaxProcessesPerPod)
				j.Spec.Template.Spec.Containers[1].Resources = newGPUs(MaxProcessesPerPod + 1)
			},
			want: []string{"spec.template.spec.containers[1].resources"},
		},
		"list of mistakes ends": {
			change: func(j *batchv1.Job) { j.Annotations[AnnotationRoles] = strings.Repeat(",", 50) },
			want:   slicesRepeat("metadata.annotations[rollcall.training/roles]", MaxErrors),
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newTestJob(2)
			c.change(job)
			_, _, errs := Parse(Workload{Job: job}, testFrameworks, Config{})
			var got []string
			for _, err := range errs {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields of the errors (-want +got):\n%s\n%v", diff, errs.ErrorList().ToAggregate())
			}
		})
	}
}

// newGPUs returns the resources of a container with n accelerators.
func newGPUs(n int64) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{
		DefaultGPUResource: *resource.NewQuantity(n, resource.DecimalSI),
	}}
}

func slicesRepeat(text string, n int) []string {
	var out []string
	for range n {
		out = append(out, text)
	}
	return out
}

// TestAllowedValues checks that an error lists only some of many allowed values.
func TestAllowedValues(t *testing.T) {
	job := newTestJob(12)
	job.Annotations[AnnotationContainers] = "zzzz"
	_, _, errs := Parse(Workload{Job: job}, testFrameworks, Config{})
	if len(errs) != 1 || !strings.HasSuffix(errs[0].Error.Error(), " and 2 more") ||
		strings.Count(errs[0].Detail, `"`) != 2*maxListedValues {
		t.Errorf("errors %v, want 10 values and the number of the others", errs)
	}
}

// TestLimitErrors checks that long lists and long texts are shortened.
func TestLimitErrors(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	errs := field.ErrorList{field.Invalid(field.NewPath(long), long, long)}
	for range 2 * MaxErrors {
		errs = append(errs, field.Required(field.NewPath("a"), "set it"))
	}
	got := LimitErrors(errs)
	if n := len(got); n != MaxErrors {
		t.Fatalf("%d errors, want %d", n, MaxErrors)
	}
	if n := len(got[0].Error()); n > 4*maxShownLength {
		t.Errorf("the first error has %d bytes", n)
	}
	if want := "set it; the list omits 21 more errors"; got[MaxErrors-1].Detail != want {
		t.Errorf("the last error is %q, want %q", got[MaxErrors-1].Detail, want)
	}
	if len(errs[0].Detail) != len(long) || errs[MaxErrors-1].Detail != "set it" {
		t.Error("the argument changed")
	}
}

// TestSuggestionCost checks that no suggestion is searched for long texts and in long lists.
func TestSuggestionCost(t *testing.T) {
	long := strings.Repeat("x", maxSuggestionLength+1)
	for name, c := range map[string]struct {
		word       string
		candidates []string
		want       string
	}{
		"similar word":        {word: "wroker", candidates: []string{"launcher", "worker"}, want: "worker"},
		"long word":           {word: long, candidates: []string{long + "x"}},
		"long candidate":      {word: long[1:], candidates: []string{long}},
		"too many candidates": {word: "wroker", candidates: slicesRepeat("worker", maxSuggestions+1)},
	} {
		if got := findClosestMatch(c.word, c.candidates); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
