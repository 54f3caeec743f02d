package webhook_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/webhook"
)

// TestDefaults verifies that the mutating webhook sets the defaults of the policy before the injection, that
// the validating webhook accepts the result, and that a second call changes nothing.
func TestDefaults(t *testing.T) {
	policies := &testPolicies{policy: readPolicy(t, "cluster: {defaults: {env: {NCCL_DEBUG: INFO}, restarts: 1}}\n"+
		"profiles: [{name: a, namespaces: {selector: {matchLabels: {team: a}}}, defaults: {priorityClass: low}}]")}
	mutator := webhook.NewMutator(newEngine(), newEnforcer(policies))
	raw := []byte(gpuJob)
	mutated := applyPatch(t, raw, mutator.Handle(t.Context(), newRequest(admissionv1.Create, gang.Job, nil, raw)))
	var job batchv1.Job
	if err := json.Unmarshal(mutated, &job); err != nil {
		t.Fatal(err)
	}
	env := job.Spec.Template.Spec.Containers[0].Env
	if env[0].Name != "NCCL_DEBUG" || job.Spec.Template.Spec.PriorityClassName != "low" ||
		job.Annotations[gang.AnnotationMaxRestarts] != "2" {
		t.Errorf("the defaults are not set, or replace a value of the user: %s", mutated)
	}
	if !strings.Contains(job.Annotations[gang.AnnotationInjected], `"priorityClass/":"policy:a"`) {
		t.Errorf("the record does not name the profile: %s", job.Annotations[gang.AnnotationInjected])
	}
	validator := webhook.NewValidator(newEngine(), newEnforcer(policies))
	if r := validator.Handle(t.Context(), newRequest(admissionv1.Create, gang.Job, nil, mutated)); !r.Allowed {
		t.Errorf("the validating webhook denies the defaults: %s", r.Result.Message)
	}
	again := mutator.Handle(t.Context(), newRequest(admissionv1.Create, gang.Job, nil, mutated))
	if !again.Allowed || len(again.Patch) > 0 {
		t.Errorf("a second call changes %v", again.Patch)
	}
}

// TestDefaultsOfUpdate verifies that a changed policy does not change a StatefulSet that exists.
func TestDefaultsOfUpdate(t *testing.T) {
	const set = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"train","namespace":"default",` +
		`"labels":{"rollcall.training/framework":"pytorch"}},"spec":{"replicas":2,"serviceName":"train",` +
		`"podManagementPolicy":"Parallel","selector":{"matchLabels":{"app":"train"}},"template":{"metadata":` +
		`{"labels":{"app":"train"}},"spec":{"containers":[{"name":"trainer","image":"registry.example.com/train:1"}]}}}}`
	policies := &testPolicies{policy: readPolicy(t, "cluster: {defaults: {env: {NCCL_DEBUG: INFO}}}")}
	mutator := webhook.NewMutator(newEngine(), newEnforcer(policies))
	raw := []byte(set)
	live := applyPatch(t, raw, mutator.Handle(t.Context(), newRequest(admissionv1.Create, gang.StatefulSet, nil, raw)))
	policies.policy = readPolicy(t, "cluster: {defaults: {env: {NCCL_DEBUG: WARN, NCCL_IB_HCA: mlx5}}}")
	if r := mutator.Handle(t.Context(), newRequest(admissionv1.Update, gang.StatefulSet, live, live)); len(r.Patch) > 0 {
		t.Errorf("a changed policy changes %v", r.Patch)
	}
	replaced := mutator.Handle(t.Context(), newRequest(admissionv1.Update, gang.StatefulSet, live, raw))
	result := string(applyPatch(t, raw, replaced))
	if !strings.Contains(result, `"value":"INFO"`) || strings.Contains(result, "mlx5") {
		t.Errorf("a replacement loses the defaults of the creation: %s", result)
	}
}

func TestUnknownProfile(t *testing.T) {
	job := strings.Replace(gpuJob, `"annotations":{`, `"annotations":{"rollcall.training/profile":"ib",`, 1)
	const field = "metadata.annotations[rollcall.training/profile]: "
	for name, test := range map[string]struct {
		enforcer *webhook.PolicyEnforcer
		want     string
		warning  bool // instead of a denial
	}{
		"the denial lists the profiles that exist": {
			enforcer: newEnforcer(&testPolicies{policy: readPolicy(t, "profiles: [{name: fabric, selectable: true}]")}),
			want:     field + `Unsupported value: "ib": supported values: "fabric"`,
		},
		"the mode warn warns": {
			enforcer: newEnforcer(&testPolicies{policy: readPolicy(t, "mode: warn")}), warning: true,
			want: field + `Invalid value: "ib": the policy has no profile that a workload of this namespace can select`,
		},
		"the ceiling off has no effect": {
			enforcer: newEnforcer(&testPolicies{policy: readPolicy(t, "mode: enforce").WithCeiling(policy.ModeOff)}),
		},
		"a cluster without a policy has no profiles": {
			want: field + `Invalid value: "ib": the policy has no profile that a workload of this namespace can select`,
		},
		"a policy that is not loaded is not known": {
			enforcer: newEnforcer(&testPolicies{err: errors.New("not loaded")}), want: "not loaded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := webhook.NewMutator(newEngine(), test.enforcer).
				Handle(t.Context(), newRequest(admissionv1.Create, gang.Job, nil, []byte(job)))
			message := strings.Join(r.Warnings, "\n")
			if !r.Allowed {
				message = r.Result.Message
			}
			if isDenied := test.want != "" && !test.warning; r.Allowed == isDenied || !strings.Contains(message, test.want) ||
				test.want == "" && message != "" {
				t.Errorf("allowed %t, message %q, want %q", r.Allowed, message, test.want)
			}
		})
	}
}
