package injectors_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

func newQueuedJob(queueLabel, queueAnnotation, roles string) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train-worker", Namespace: "team",
			Labels:      map[string]string{gang.LabelFramework: "tensorflow", gang.LabelRole: "worker"},
			Annotations: map[string]string{},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "main", Image: "example.com/train:1", Command: []string{"train"}}},
			}},
		},
	}
	for key, value := range map[string]string{gang.AnnotationQueue: queueAnnotation, gang.AnnotationRoles: roles} {
		if value != "" {
			job.Annotations[key] = value
		}
	}
	if queueLabel != "" {
		job.Labels[gang.LabelQueueName] = queueLabel
	}
	return job
}

func TestAdmitQueue(t *testing.T) {
	const roles = "ps=4,worker=4"
	for name, test := range map[string]struct {
		job        *batchv1.Job
		queueGangs bool
		problem    string
		// label and queue are the values after the admission.
		label, queue    string
		warning, denial string
	}{
		"an annotation": {job: newQueuedJob("", "gpus", roles), queueGangs: true, queue: "gpus"},
		"a label": {job: newQueuedJob("gpus", "", roles), queueGangs: true, queue: "gpus",
			warning: "replaced by the annotation"},
		"both, such as the label of a default queue": {
			job: newQueuedJob("default", "gpus", roles), queueGangs: true, queue: "gpus",
			warning: "replaced by the annotation"},
		"a label in a cluster without permission": {job: newQueuedJob("gpus", "", roles), label: "gpus"},
		"an annotation in a cluster without Kueue": {job: newQueuedJob("", "gpus", roles), problem: "there is no Kueue",
			denial: "there is no Kueue"},
		"a label on the only Job of a gang": {job: newQueuedJob("gpus", "", ""), queueGangs: true, label: "gpus"},
		"an annotation on the only Job of a gang": {job: newQueuedJob("", "gpus", ""), queueGangs: true,
			denial: "name the queue of a Job with the label"},
		"a name that is not valid": {job: newQueuedJob("", "GPUs", roles), queueGangs: true, denial: "lower case"},
	} {
		t.Run("a Job with "+name, func(t *testing.T) {
			engine := injectors.NewEngine(injectors.Builtin(), gang.Config{QueueGangs: test.queueGangs}).
				WithFacts(nil, func() string { return test.problem })
			w := gang.Workload{Job: test.job}
			r, err := engine.Admit(w)
			if denied := err != nil; denied != (test.denial != "") || denied && !strings.Contains(err.Error(), test.denial) {
				t.Fatalf("error: %v", err)
			}
			if warnings := strings.Join(r.Warnings.Strings(), "\n"); !strings.Contains(warnings, test.warning) {
				t.Errorf("warnings: %s", warnings)
			}
			if test.denial != "" {
				return
			}
			template := test.job.Spec.Template.Annotations[gang.AnnotationQueue]
			if test.job.Labels[gang.LabelQueueName] != test.label || template != test.queue || r.Gang.Queue != test.queue {
				t.Errorf("labels %v, queue %q in the template, %q of the gang", test.job.Labels, template, r.Gang.Queue)
			}
			if w.IsSuspended() != (test.queue != "") {
				t.Errorf("suspended: %t", w.IsSuspended())
			}
			again := w.DeepCopy()
			if _, err := engine.Admit(again); err != nil || !again.Equal(w) {
				t.Errorf("a second admission changes the Job: %v", err)
			}
		})
	}
}

// TestDescribeQueue checks that an annotation that a user adds to a running Job has no effect, because it would suspend
// the gang.
func TestDescribeQueue(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newQueuedJob("gpus", "", "ps=4,worker=4") // admitted before the cluster queued gangs as one
	if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationQueue] = "gpus"
	r, err := injectors.NewEngine(injectors.Builtin(), gang.Config{QueueGangs: true}).Describe(gang.Workload{Job: job})
	if err != nil || r.Gang.Queue != "" {
		t.Errorf("the queue is %q, %v", r.Gang.Queue, err)
	}
}
