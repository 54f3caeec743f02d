package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/webhook"
)

// TestTwoBuilds: while managers are replaced, or when one of them was started before its cluster was upgraded, one injects
// a workload and the other looks at it. Neither refuses what the other did, and both refuse what a third spoiled.
func TestTwoBuilds(t *testing.T) {
	of := func(build string, noRules bool) *injectors.Engine {
		return injectors.New(injectors.Builtin(), gang.Config{Build: build, NoRestartRules: noRules})
	}
	raw := labelled(t, plainJob)
	for name, c := range map[string]struct {
		reason  string
		by, at  *injectors.Engine
		spoil   func(*batchv1.Job)
		allowed bool
	}{
		"older by newer":   {"", of("new", false), of("old", true), nil, true},
		"newer by older":   {"", of("old", true), of("new", false), nil, true},
		"the same":         {"", of("new", false), of("new", false), nil, true},
		"spoiled":          {"", of("new", false), of("old", true), func(j *batchv1.Job) { delete(j.Spec.Template.Labels, gang.LabelGang) }, false},
		"spoiled, by kind": {"its own build can tell more", of("new", false), of("new", false), func(j *batchv1.Job) { j.Spec.Template.Spec.Subdomain = "" }, false},
		"not said":         {"a build that does not say which it is vouches for nothing", of("", false), of("old", true), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var job batchv1.Job
			if err := json.Unmarshal(apply(t, raw, webhook.NewMutator(c.by).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, raw))), &job); err != nil {
				t.Fatal(err)
			}
			if c.spoil != nil {
				c.spoil(&job)
			}
			r := webhook.NewValidator(clientgoscheme.Scheme, c.at).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, marshal(t, &job)))
			if r.Allowed != c.allowed {
				t.Errorf("%s: allowed %v: %+v", c.reason, r.Allowed, r.Result)
			}
			if !c.allowed && !strings.Contains(r.Result.Message, "not as Rollcall injected it") {
				t.Errorf("it says %q", r.Result.Message)
			}
		})
	}
}
