package webhook_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/webhook"
)

// TestListedChanges checks that the validating webhook lists what another webhook removed from an
// injected Job.
func TestListedChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(job *batchv1.Job)
		want   string
		not    string
	}{
		"field and label": {
			change: func(job *batchv1.Job) {
				job.Spec.Template.Spec.Subdomain = ""
				delete(job.Spec.Template.Labels, gang.LabelGang)
			},
			want: "in spec.template.metadata.labels[rollcall.training/gang], spec.template.spec.subdomain, because",
			not:  gang.AnnotationInjected,
		},
		"more than five variables": {
			change: func(job *batchv1.Job) {
				job.Spec.Template.Spec.Containers[0].Env = job.Spec.Template.Spec.Containers[0].Env[:1]
			},
			want: "…, because",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := decodeWorkload(t, gang.Job, admitJob(t, setFrameworkLabel(t, unlabeledJob)))
			c.change(w.Job)
			req := newRequest(admissionv1.Create, gang.Job, nil, marshalJSON(t, w.Object()))
			r := webhook.NewValidator(newEngine(), nil).Handle(t.Context(), req)
			if r.Allowed || !strings.Contains(r.Result.Message, c.want) {
				t.Errorf("the message is %q, want %q", r.Result.Message, c.want)
			}
			if c.not != "" && strings.Contains(r.Result.Message, c.not) {
				t.Errorf("the message is %q, do not want %q", r.Result.Message, c.not)
			}
		})
	}
}

// TestOutdatedRecord checks objects that differ from an injection only in the record. The validating
// webhook allows them, because another webhook changed a value that Rollcall accepts.
func TestOutdatedRecord(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(job *batchv1.Job)
		wantAllowed bool
	}{
		"size limit changed after the last call of the mutating webhook": {
			change: func(job *batchv1.Job) {
				job.Spec.Template.Spec.Volumes[0].EmptyDir.SizeLimit = ptr.To(resource.MustParse("1Gi"))
			},
			wantAllowed: true,
		},
		"record removed": {
			change: func(job *batchv1.Job) { delete(job.Annotations, gang.AnnotationInjected) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := decodeWorkload(t, gang.Job, setFrameworkLabel(t, unlabeledJob))
			w.Job.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("16Gi"),
			}
			w = decodeWorkload(t, gang.Job, admitJob(t, marshalJSON(t, w.Object())))
			c.change(w.Job)
			req := newRequest(admissionv1.Create, gang.Job, nil, marshalJSON(t, w.Object()))
			r := webhook.NewValidator(newEngine(), nil).Handle(t.Context(), req)
			if r.Allowed != c.wantAllowed {
				t.Errorf("allowed = %t, want %t: %s", r.Allowed, c.wantAllowed, r.Result.Message)
			}
		})
	}
}

// TestChangedInjection checks the message about a value of Rollcall that another webhook changed.
func TestChangedInjection(t *testing.T) {
	for name, c := range map[string]struct {
		golden string
		change func(template *corev1.PodTemplateSpec)
		want   string
	}{
		"command of the init container": {
			golden: "mpi/testdata/launcher",
			change: func(template *corev1.PodTemplateSpec) {
				template.Spec.InitContainers[0].Command = []string{"/vault/env", "sh"}
			},
			want: `initContainers[0].command: Invalid value: "/vault/env sh": was changed after Rollcall injected it`,
		},
		"arguments of the init container": {
			golden: "mpi/testdata/launcher",
			change: func(template *corev1.PodTemplateSpec) {
				template.Spec.InitContainers[0].Args = []string{"sh"}
			},
			want: `initContainers[0].args: Invalid value: "sh": was changed after Rollcall injected it`,
		},
		"volume in a mount of the init container": {
			golden: "mpi/testdata/launcher",
			change: func(template *corev1.PodTemplateSpec) {
				template.Spec.InitContainers[0].VolumeMounts[0].Name = "rollcall-shm"
			},
			want: `initContainers[0].volumeMounts[0]: Invalid value: "rollcall-shm": was changed after Rollcall injected it`,
		},
		"medium of a volume": {
			golden: "pytorch/testdata/job",
			change: func(template *corev1.PodTemplateSpec) {
				template.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumDefault
			},
			want: `volumes[rollcall-shm]: Invalid value: "rollcall-shm": was changed after Rollcall injected it`,
		},
		"required variable": {
			golden: "pytorch/testdata/job",
			change: func(template *corev1.PodTemplateSpec) {
				for i := range template.Spec.Containers[0].Env {
					if e := &template.Spec.Containers[0].Env[i]; e.Name == "WORLD_SIZE" {
						e.Value = "9"
					}
				}
			},
			want: `but was changed after Rollcall injected it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := decodeWorkload(t, gang.Job, admitJob(t, readGoldenCase(t, c.golden)))
			c.change(w.Template())
			req := newRequest(admissionv1.Create, gang.Job, nil, marshalJSON(t, w.Object()))
			mutated := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), req)
			validated := webhook.NewValidator(newEngine(), nil).Handle(t.Context(), req)
			if mutated.Allowed || validated.Allowed {
				t.Fatal("the change was allowed")
			}
			for _, message := range []string{mutated.Result.Message, validated.Result.Message} {
				if !strings.Contains(message, c.want) || strings.Contains(message, "rename") {
					t.Errorf("the message is %q, want %q", message, c.want)
				}
			}
		})
	}
}
