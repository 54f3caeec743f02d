package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/webhook"
)

// TestMixedVersions checks a workload that one build injects and another build validates. This happens
// during a rolling update, or if one manager started before its cluster was upgraded. A build accepts
// the unmodified injection of another build, and denies a modified injection.
func TestMixedVersions(t *testing.T) {
	newBuild := func(build string, noRules bool) *injectors.Engine {
		config := gang.Config{Build: build, DisableContainerRestartRules: noRules}
		return injectors.NewEngine(injectors.Builtin(), config)
	}
	raw := setFrameworkLabel(t, unlabeledJob)
	for name, c := range map[string]struct {
		mutating, validating *injectors.Engine
		modify               func(*batchv1.Job) // nil means no modification
		wantAllowed          bool
	}{
		"older build validates the injection of a newer build": {
			mutating:    newBuild("new", false),
			validating:  newBuild("old", true),
			wantAllowed: true,
		},
		"newer build validates the injection of an older build": {
			mutating:    newBuild("old", true),
			validating:  newBuild("new", false),
			wantAllowed: true,
		},
		"build validates its own injection": {
			mutating:    newBuild("new", false),
			validating:  newBuild("new", false),
			wantAllowed: true,
		},
		"other webhook removed an injected label": {
			mutating:   newBuild("new", false),
			validating: newBuild("old", true),
			modify:     func(j *batchv1.Job) { delete(j.Spec.Template.Labels, gang.LabelGang) },
		},
		"same build also detects a changed field": {
			mutating:   newBuild("new", false),
			validating: newBuild("new", false),
			modify:     func(j *batchv1.Job) { j.Spec.Template.Spec.Subdomain = "" },
		},
		"injection of an unknown build with the same values": {
			mutating:    newBuild("", false),
			validating:  newBuild("old", false),
			wantAllowed: true,
		},
		"injection of an unknown build with other values": {
			mutating:   newBuild("", false),
			validating: newBuild("old", false),
			modify:     func(j *batchv1.Job) { j.Spec.Template.Spec.Subdomain = "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := newRequest(admissionv1.Create, gang.Job, nil, raw)
			var job batchv1.Job
			patched := applyPatch(t, raw, webhook.NewMutator(c.mutating, nil).Handle(t.Context(), req))
			if err := json.Unmarshal(patched, &job); err != nil {
				t.Fatal(err)
			}
			if c.modify != nil {
				c.modify(&job)
			}
			req = newRequest(admissionv1.Create, gang.Job, nil, marshalJSON(t, &job))
			r := webhook.NewValidator(c.validating, nil).Handle(t.Context(), req)
			if r.Allowed != c.wantAllowed {
				t.Errorf("allowed = %t, want %t: %+v", r.Allowed, c.wantAllowed, r.Result)
			}
			if !c.wantAllowed && !strings.Contains(r.Result.Message, "does not match the injection of Rollcall") {
				t.Errorf("the message is %q", r.Result.Message)
			}
		})
	}
}
