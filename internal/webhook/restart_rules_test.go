package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/webhook"
)

// TestDroppedRestartRules checks a Job whose restart rules the API server changed after the mutating webhooks.
func TestDroppedRestartRules(t *testing.T) {
	drop := func(c *corev1.Container) { c.RestartPolicy, c.RestartPolicyRules = nil, nil }
	withoutRules := injectors.NewEngine(injectors.Builtin(), gang.Config{DisableContainerRestartRules: true, Build: "old"})
	for name, c := range map[string]struct {
		validating  *injectors.Engine // nil means the engine of the mutating webhook
		change      func(*corev1.Container)
		changeJob   func(*batchv1.Job)
		wantWarning bool
		wantDenied  bool
	}{
		"an API server that keeps the rules":                           {change: func(*corev1.Container) {}},
		"an API server with a disabled feature drops policy and rules": {change: drop, wantWarning: true},
		"another webhook changes the rules, which are its own then": {
			change: func(c *corev1.Container) { c.RestartPolicyRules[0].ExitCodes.Values = []int32{7} },
		},
		"another webhook replaces the rules by a policy": {
			change: func(c *corev1.Container) {
				drop(c)
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			},
		},
		"another webhook also changes another field": {
			change: drop, changeJob: func(j *batchv1.Job) { j.Spec.Template.Spec.Subdomain = "" }, wantDenied: true,
		},
		"nothing is recorded": {
			change:     drop,
			changeJob:  func(j *batchv1.Job) { delete(j.Annotations, gang.AnnotationInjected) },
			wantDenied: true,
		},
		"a manager that started with an older API server validates": {validating: withoutRules, change: drop},
	} {
		t.Run(name, func(t *testing.T) {
			mutating := injectors.NewEngine(injectors.Builtin(), gang.Config{Build: "new"})
			raw := mergePatch(t, setFrameworkLabel(t, unlabeledJob),
				`{"spec":{"backoffLimit":3,"template":{"spec":{"restartPolicy":"Never"}}}}`)
			mutated := webhook.NewMutator(mutating, nil).Handle(t.Context(), newRequest(admissionv1.Create, gang.Job, nil, raw))
			var job batchv1.Job
			if err := json.Unmarshal(applyPatch(t, raw, mutated), &job); err != nil {
				t.Fatal(err)
			}
			container := &job.Spec.Template.Spec.Containers[0]
			if len(container.RestartPolicyRules) == 0 {
				t.Fatal("the container has no restart rules, so the test has no meaning")
			}
			c.change(container)
			if c.changeJob != nil {
				c.changeJob(&job)
			}
			validating := mutating
			if c.validating != nil {
				validating = c.validating
			}
			r := webhook.NewValidator(validating, nil).
				Handle(t.Context(), newRequest(admissionv1.Create, gang.Job, nil, marshalJSON(t, &job)))
			if r.Allowed == c.wantDenied {
				t.Errorf("allowed: %t, want %t: %+v", r.Allowed, !c.wantDenied, r.Result)
			}
			const path = "spec.template.spec.containers[0].restartPolicyRules: the API server did not keep this field"
			if warned := strings.Contains(strings.Join(r.Warnings, "\n"), path); warned != c.wantWarning {
				t.Errorf("warned: %t, want %t: %q", warned, c.wantWarning, r.Warnings)
			}
		})
	}
}
