package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/webhook"
)

// testPolicies provides one policy. The namespace of all tests has the label team.
type testPolicies struct {
	policy            *policy.Policy
	err, namespaceErr error
}

func (p *testPolicies) Current() (*policy.Policy, error) { return p.policy, p.err }

func (p *testPolicies) Subscribe() <-chan struct{} { return nil }

func (p *testPolicies) DescribeNamespace(_ context.Context, name string) (policy.Namespace, error) {
	return policy.Namespace{Name: name, Labels: map[string]string{"team": "a"}}, p.namespaceErr
}

var policyTime = time.Date(2027, time.March, 31, 12, 0, 0, 0, time.UTC)

func newEnforcer(p *testPolicies) *webhook.PolicyEnforcer {
	return webhook.NewPolicyEnforcer(p, clocktesting.NewFakePassiveClock(policyTime))
}

// readPolicy returns the policy with the given content after apiVersion and kind.
func readPolicy(t testing.TB, text string) *policy.Policy {
	t.Helper()
	text = "apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\n" + text
	p, problems := policy.Read("policy.yaml", []byte(text), newEngine().Frameworks())
	if p == nil {
		t.Fatal(problems)
	}
	return p
}

const gpuJob = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","namespace":"default",` +
	`"labels":{"rollcall.training/framework":"pytorch","team":"llm"},` +
	`"annotations":{"rollcall.training/max-restarts":"2"}},` +
	`"spec":{"completionMode":"Indexed","completions":8,"parallelism":8,"activeDeadlineSeconds":3600,` +
	`"ttlSecondsAfterFinished":60,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"trainer",` +
	`"image":"registry.example.com/train:1","resources":{"limits":{"nvidia.com/gpu":"8"}}}]}}}}`

const roleJob = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train-worker","namespace":"default",` +
	`"labels":{"rollcall.training/framework":"pytorch","rollcall.training/role":"worker"},` +
	`"annotations":{"rollcall.training/roles":"master=1,worker=4"}},` +
	`"spec":{"completionMode":"Indexed","completions":4,"parallelism":4,"template":{"spec":{"restartPolicy":"Never",` +
	`"containers":[{"name":"trainer","image":"registry.example.com/train:1",` +
	`"resources":{"limits":{"nvidia.com/gpu":"8"}}}]}}}}`

// admit returns a workload as the mutating webhook admits it. It can select the profile short, which has no defaults.
func admit(t testing.TB, kind gang.Kind, object string) []byte {
	t.Helper()
	raw := []byte(object)
	enforcer := newEnforcer(&testPolicies{policy: readPolicy(t, "profiles: [{name: short, selectable: true}]")})
	r := webhook.NewMutator(newEngine(), enforcer).Handle(t.Context(), newRequest(admissionv1.Create, kind, nil, raw))
	if !r.Allowed {
		t.Fatalf("the mutating webhook denied the workload: %s", r.Result.Message)
	}
	return applyPatch(t, raw, r)
}

// listCauses returns the field and the message of each cause of a denial.
func listCauses(r admission.Response) []string {
	if r.Allowed || r.Result == nil || r.Result.Details == nil {
		return nil
	}
	var out []string
	for _, c := range r.Result.Details.Causes {
		out = append(out, c.Field+": "+c.Message)
	}
	return out
}

func TestPolicyOfNewWorkload(t *testing.T) {
	for name, test := range map[string]struct {
		policy   string
		job      string // gpuJob by default
		causes   []string
		warnings []string
		audit    map[string]string // without the digest
	}{
		"a gang within the limits is admitted": {
			policy: "cluster: {limits: {gpus: {max: 64}}}",
			audit:  map[string]string{"policy": "cluster"},
		},
		"all violations of enforced rules are in one denial, with a warning for the other mode": {
			policy: "contact: '#gpu-admins'\ncluster: {limits: {gpus: {max: 32}, ttl: {max: 30s}, size: {max: 4, mode: warn}, " +
				"labels: {require: {cost-center: '[0-9]+'}}, restarts: {max: 1, mode: audit}}}",
			causes: []string{
				"spec.parallelism: Invalid value: 8: makes a gang of 64 accelerators (8 pods x 8), at most 32 are allowed; " +
					"use at most 4 pods, or ask #gpu-admins (policy cluster/gpus)",
				"metadata.labels[cost-center]: Forbidden: is required; the value must match [0-9]+, or ask #gpu-admins " +
					"(policy cluster/labels)",
				"spec.ttlSecondsAfterFinished: Invalid value: 60: makes the time until deletion after the end 1m, " +
					"at most 30s is allowed; set at most 30, or ask #gpu-admins (policy cluster/ttl)",
			},
			warnings: []string{"spec.parallelism: makes a gang of 8 pods, at most 4 are allowed, or ask #gpu-admins " +
				"(policy cluster/size)"},
			audit: map[string]string{"policy": "cluster", "violations": "cluster/gpus=enforce,cluster/labels=enforce," +
				"cluster/ttl=enforce,cluster/size=warn,cluster/restarts=audit"},
		},
		"the mode audit is only in the audit log": {
			policy: "mode: audit\ncluster: {limits: {gpus: {max: 32}}}",
			audit:  map[string]string{"policy": "cluster", "violations": "cluster/gpus=audit"},
		},
		"a profile is selected by a label of the namespace": {
			policy: "profiles: [{name: team-a, namespaces: {selector: {matchLabels: {team: a}}}, limits: {size: {max: 4}}}]",
			causes: []string{"spec.parallelism: Invalid value: 8: makes a gang of 8 pods, at most 4 are allowed " +
				"(policy team-a/size)"},
			audit: map[string]string{"policy": "team-a", "violations": "team-a/size=enforce"},
		},
		"an exemption admits its gang": {
			policy: "cluster: {limits: {size: {max: 4}}}\nexemptions: [{rule: cluster/size, namespace: default, " +
				"gangs: [train], until: 2027-03-31, reason: OPS-1}]",
			audit: map[string]string{"policy": "cluster"},
		},
		"accelerators of other members are unknown, and no reason for a denial or a warning": {
			policy: "cluster: {limits: {gpus: {max: 64}}}", job: roleJob,
			audit: map[string]string{"policy": "cluster", "unknown": "cluster/gpus=enforce"},
		},
		"a member that violates the limit on its own is denied": {
			policy: "cluster: {limits: {gpus: {max: 16}}}", job: roleJob,
			causes: []string{"metadata.annotations[rollcall.training/roles]: Invalid value: 4: makes a gang of at least 32 " +
				"accelerators (4 pods x 8), at most 16 are allowed; use at most 2 pods (policy cluster/gpus)"},
			audit: map[string]string{"policy": "cluster", "violations": "cluster/gpus=enforce"},
		},
		"a Job of another controller is judged, too": {
			policy: "cluster: {limits: {gpus: {max: 32}}}",
			job:    strings.Replace(gpuJob, `"spec":{`, `"spec":{"managedBy":"example.com/other",`, 1),
			causes: []string{"spec.parallelism: Invalid value: 8: makes a gang of 64 accelerators (8 pods x 8), at most 32 " +
				"are allowed; use at most 4 pods (policy cluster/gpus)"},
			audit: map[string]string{"policy": "cluster", "violations": "cluster/gpus=enforce"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := test.job
			if job == "" {
				job = gpuJob
			}
			p := readPolicy(t, test.policy)
			req := newRequest(admissionv1.Create, gang.Job, nil, admit(t, gang.Job, job))
			r := webhook.NewValidator(newEngine(), newEnforcer(&testPolicies{policy: p})).Handle(t.Context(), req)
			if r.Allowed != (test.causes == nil) {
				t.Errorf("allowed: %t, %+v", r.Allowed, r.Result)
			}
			if !r.Allowed && (r.Result.Code != http.StatusUnprocessableEntity || r.Result.Reason != metav1.StatusReasonInvalid) {
				t.Errorf("denied with %d %s, want 422 Invalid", r.Result.Code, r.Result.Reason)
			}
			if diff := cmp.Diff(test.causes, listCauses(r)); diff != "" {
				t.Error("causes (-want +got):\n" + diff)
			}
			if diff := cmp.Diff(test.warnings, r.Warnings, cmpopts.EquateEmpty()); diff != "" {
				t.Error("warnings (-want +got):\n" + diff)
			}
			test.audit["policy"] += "@" + p.Digest()
			if diff := cmp.Diff(test.audit, r.AuditAnnotations); diff != "" {
				t.Error("audit annotations (-want +got):\n" + diff)
			}
		})
	}
}

// TestPolicyOfJobUpdate checks the ways around a limit by updates of a Job, and that an update that does
// not make a violation worse is never denied.
// profileJob selects a profile of profiles.
var profileJob = strings.Replace(gpuJob, `"annotations":{`, `"annotations":{"rollcall.training/profile":"short",`, 1)

const profiles = "profiles: [{name: short, selectable: true, limits: {runtime: {max: 1h}, size: {max: 8}}, " +
	"defaults: {nodeSelector: {pool: short}}}, {name: long, selectable: true}]"

func TestPolicyOfJobUpdate(t *testing.T) {
	const limits = "cluster: {limits: {restarts: {max: 2}, runtime: {required: true, max: 1h}, " +
		"ttl: {required: true, max: 1m}, gpus: {max: 64}, labels: {require: {team: llm}}, size: {max: 8}}}"
	const strict = "cluster: {limits: {restarts: {max: 0}, size: {max: 1}, gpus: {max: 1}, runtime: {max: 1s}}}"
	for name, test := range map[string]struct {
		policy string // limits by default
		job    string // gpuJob by default
		before string // an earlier patch; empty for none
		patch  string
		rules  []string

		ceiling policy.Mode
	}{
		"more restarts": {
			patch: `{"metadata":{"annotations":{"rollcall.training/max-restarts":"100"}}}`,
			rules: []string{"cluster/restarts"},
		},
		"removing the number of restarts, so that the default of 3 holds": {
			patch: `{"metadata":{"annotations":{"rollcall.training/max-restarts":null}}}`,
			rules: []string{"cluster/restarts"},
		},
		"an invalid number of restarts, so that the default of 3 holds": {
			patch: `{"metadata":{"annotations":{"rollcall.training/max-restarts":"many"}}}`,
			rules: []string{"cluster/restarts"},
		},
		"another restart policy": {
			job: strings.Replace(gpuJob, `"rollcall.training/max-restarts":"2"`,
				`"rollcall.training/restart-policy":"never","rollcall.training/max-restarts":"50"`, 1),
			patch: `{"metadata":{"annotations":{"rollcall.training/restart-policy":"gang"}}}`,
			rules: []string{"cluster/restarts"},
		},
		"removing the maximum runtime": {
			patch: `{"spec":{"activeDeadlineSeconds":null}}`,
			rules: []string{"cluster/runtime"},
		},
		"a longer runtime": {patch: `{"spec":{"activeDeadlineSeconds":7200}}`, rules: []string{"cluster/runtime"}},
		"removing the maximum runtime together with the record": {
			patch: `{"metadata":{"annotations":{"rollcall.training/injected":null}},"spec":{"activeDeadlineSeconds":null}}`,
			rules: []string{"cluster/runtime"},
		},
		"removing the maximum runtime after the record": {
			before: `{"metadata":{"annotations":{"rollcall.training/injected":null}}}`,
			patch:  `{"spec":{"activeDeadlineSeconds":null}}`,
			rules:  []string{"cluster/runtime"},
		},
		"another node selector of a suspended Job": {
			policy: "cluster: {defaults: {nodeSelector: {pool: {value: shared, locked: true}}}}",
			job:    strings.Replace(gpuJob, `"containers":`, `"nodeSelector":{"pool":"shared"},"containers":`, 1),
			patch:  `{"spec":{"suspend":false,"template":{"spec":{"nodeSelector":{"pool":"reserved"}}}}}`,
			rules:  []string{"cluster/defaults.nodeSelector"},
		},
		"removing the time to live": {
			patch: `{"spec":{"ttlSecondsAfterFinished":null}}`,
			rules: []string{"cluster/ttl"},
		},
		"removing a required label": {patch: `{"metadata":{"labels":{"team":null}}}`, rules: []string{"cluster/labels"}},
		"more accelerators of a suspended Job": {
			patch: `{"spec":{"suspend":true,"template":{"spec":{"containers":[{"name":"trainer",` +
				`"image":"registry.example.com/train:1","resources":{"limits":{"nvidia.com/gpu":"16"}}}]}}}}`,
			rules: []string{"cluster/gpus"},
		},
		"more pods": {patch: `{"spec":{"parallelism":9,"completions":9}}`, rules: []string{"cluster/gpus", "cluster/size"}},
		"roles that no longer describe a gang": {
			job: roleJob, policy: "cluster: {limits: {gpus: {max: 64}}}",
			patch: `{"metadata":{"annotations":{"rollcall.training/roles":"worker=0"}}}`,
			rules: []string{"cannot be compared"},
		},
		"roles that no longer describe a gang, with a ceiling": {
			job: roleJob, policy: "cluster: {limits: {gpus: {max: 64}}}", ceiling: policy.ModeAudit,
			patch: `{"metadata":{"annotations":{"rollcall.training/roles":"worker=0"}}}`,
		},
		"removing the profile": {
			job: profileJob, policy: profiles, patch: `{"metadata":{"annotations":{"rollcall.training/profile":null}}}`,
			rules: []string{`set it to "short", or create the workload again (policy short/selectable)`},
		},
		"another profile, with a longer runtime": {
			job: profileJob, policy: profiles, rules: []string{"short/selectable"},
			patch: `{"metadata":{"annotations":{"rollcall.training/profile":"long"}},"spec":{"activeDeadlineSeconds":7200}}`,
		},
		"removing the profile after the record": {
			job: profileJob, policy: profiles, before: `{"metadata":{"annotations":{"rollcall.training/injected":null}}}`,
			patch: `{"metadata":{"annotations":{"rollcall.training/profile":null}}}`, rules: []string{"short/selectable"},
		},
		"removing a profile that the policy does not have": {
			job: profileJob, patch: `{"metadata":{"annotations":{"rollcall.training/profile":null}}}`,
		},
		"removing the profile, with a ceiling": {
			job: profileJob, policy: profiles, ceiling: policy.ModeAudit,
			patch: `{"metadata":{"annotations":{"rollcall.training/profile":null}}}`,
		},
		"selecting a profile later": {
			policy: profiles, patch: `{"metadata":{"annotations":{"rollcall.training/profile":"short"}}}`,
		},
		"an exemption permits another profile": {
			job: profileJob, patch: `{"metadata":{"annotations":{"rollcall.training/profile":null}}}`,
			policy: profiles + "\nexemptions: [{rule: short/selectable, namespace: default, gangs: [train], " +
				"until: '2027-03-31', reason: x}]",
		},
		"a gang that violates a stricter policy is suspended": {policy: strict, patch: `{"spec":{"suspend":true}}`},
		"a gang that violates a stricter policy loses a finalizer": {
			policy: strict, patch: `{"metadata":{"finalizers":null}}`,
		},
		"a gang that violates a stricter policy becomes smaller": {
			policy: strict, patch: `{"spec":{"parallelism":4,"completions":4}}`,
		},
		"a gang that violates a stricter policy becomes larger": {
			policy: strict, patch: `{"spec":{"parallelism":9,"completions":9}}`,
			rules: []string{"cluster/gpus", "cluster/size"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.policy == "" {
				test.policy = limits
			}
			if test.job == "" {
				test.job = gpuJob
			}
			old := admit(t, gang.Job, test.job)
			if test.before != "" {
				old = mergePatch(t, old, test.before)
			}
			req := newRequest(admissionv1.Update, gang.Job, old, mergePatch(t, old, test.patch))
			r := webhook.NewValidator(newEngine(), newEnforcer(&testPolicies{
				policy: readPolicy(t, test.policy).WithCeiling(test.ceiling),
			})).JudgeJobUpdate(t.Context(), req)
			if r.Allowed != (test.rules == nil) {
				t.Errorf("allowed: %t, %+v", r.Allowed, r.Result)
			}
			if !r.Allowed {
				for _, rule := range test.rules {
					if !strings.Contains(r.Result.Message, rule) {
						t.Errorf("the denial does not contain %q: %s", rule, r.Result.Message)
					}
				}
				if n := len(listCauses(r)); r.Result.Details != nil && n > 0 && n != len(test.rules) {
					t.Errorf("%d causes, want %d: %v", n, len(test.rules), listCauses(r))
				}
			}
			if r.Allowed && test.policy == strict && len(r.Warnings) == 0 {
				t.Error("the existing violations are not warnings")
			}
		})
	}
}

func TestPolicyOfStatefulSetUpdate(t *testing.T) {
	set := marshalJSON(t, newStatefulSet(t))
	const large, scaled, grown = `{"spec":{"replicas":8}}`, `{"spec":{"replicas":9}}`, `{"spec":{"replicas":5}}`
	const empty = `{"spec":{"replicas":0}}`
	for name, test := range map[string]struct {
		created string // changes of the StatefulSet before its creation
		scaled  string // changes without admission, as by the scale subresource
		updated string
		denied  bool
	}{
		"a larger gang violates the limit":               {updated: grown, denied: true},
		"a gang within the limit is admitted":            {updated: `{"spec":{"replicas":4}}`},
		"a gang that violates the limit becomes smaller": {created: large, updated: `{"spec":{"replicas":6}}`},
		"a gang that violates the limit becomes larger":  {created: large, updated: scaled, denied: true},
		"a gang that violates the limit is suspended":    {created: large, updated: `{"spec":{"replicas":0}}`},
		"a gang that violates the limit gets a label":    {created: large, updated: `{"metadata":{"labels":{"a":"b"}}}`},

		"the empty patch after the scale subresource":    {scaled: grown, updated: `{}`, denied: true},
		"the empty patch after scaling within the limit": {scaled: `{"spec":{"replicas":4}}`, updated: `{}`},
		"the empty patch after the first size":           {created: empty, scaled: grown, updated: `{}`, denied: true},
		"the first size of a gang that violates another limit": {
			created: `{"metadata":{"annotations":{"rollcall.training/max-restarts":"9"}},"spec":{"replicas":0}}`,
			scaled:  `{"spec":{"replicas":2}}`, updated: `{}`, denied: true,
		},
		"a gang without a size that violates another limit gets a label": {
			created: `{"metadata":{"annotations":{"rollcall.training/max-restarts":"9"}},"spec":{"replicas":0}}`,
			updated: `{"metadata":{"labels":{"a":"b"}}}`,
		},
		"the empty patch after a first size within the limit": {
			created: empty, scaled: `{"spec":{"replicas":4}}`, updated: `{}`,
		},
		"a gang whose first size violates the limit is reverted": {created: empty, scaled: grown, updated: empty},
		"a suspended gang that violates the limit is resumed": {
			created: large, scaled: empty, updated: `{"spec":{"replicas":2}}`,
		},
		"a gang leaves its profile": {
			created: `{"metadata":{"annotations":{"rollcall.training/profile":"short"}}}`,
			updated: `{"metadata":{"annotations":{"rollcall.training/profile":null}},"spec":{"replicas":3}}`, denied: true,
		},
		"a gang keeps its profile": {
			created: `{"metadata":{"annotations":{"rollcall.training/profile":"short"}}}`, updated: `{"spec":{"replicas":3}}`,
		},
		"a gang that was scaled beyond the limit is reverted": {scaled: scaled, updated: `{"spec":{"replicas":2}}`},
	} {
		t.Run(name, func(t *testing.T) {
			patch := func(raw []byte, patch string) []byte {
				if patch == "" {
					return raw
				}
				return mergePatch(t, raw, patch)
			}
			live := patch(admit(t, gang.StatefulSet, string(patch(set, test.created))), test.scaled)
			changed := patch(live, test.updated)
			update := newRequest(admissionv1.Update, gang.StatefulSet, live, changed)
			changed = applyPatch(t, changed, webhook.NewMutator(newEngine(), nil).Handle(t.Context(), update))
			limits := readPolicy(t, "cluster: {limits: {size: {max: 4}, restarts: {max: 8}}}\n"+profiles)
			enforcer := newEnforcer(&testPolicies{policy: limits})
			r := webhook.NewValidator(newEngine(), enforcer).
				Handle(t.Context(), newRequest(admissionv1.Update, gang.StatefulSet, live, changed))
			if r.Allowed == test.denied {
				t.Errorf("allowed: %t, want %t: %+v", r.Allowed, !test.denied, r.Result)
			}
		})
	}
}

// TestPolicyUnavailable checks that no workload is admitted without being judged.
func TestPolicyUnavailable(t *testing.T) {
	for name, policies := range map[string]*testPolicies{
		"the policy is not loaded":     {err: errors.New("not loaded yet")},
		"the namespace cannot be read": {policy: readPolicy(t, ""), namespaceErr: errors.New("timeout")},
	} {
		t.Run(name, func(t *testing.T) {
			req := newRequest(admissionv1.Create, gang.Job, nil, admit(t, gang.Job, gpuJob))
			r := webhook.NewValidator(newEngine(), newEnforcer(policies)).Handle(t.Context(), req)
			if r.Allowed || r.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("the response is %+v, want code 503", r.AdmissionResponse)
			}
		})
	}
	audited := &testPolicies{policy: readPolicy(t, "").WithCeiling(policy.ModeAudit), namespaceErr: errors.New("timeout")}
	req := newRequest(admissionv1.Create, gang.Job, nil, admit(t, gang.Job, gpuJob))
	if r := webhook.NewValidator(newEngine(), newEnforcer(audited)).Handle(t.Context(), req); !r.Allowed {
		t.Errorf("with the ceiling audit, a namespace that cannot be read denies the workload: %s", r.Result.Message)
	}
}

// TestPolicyFindingMetric checks the series of findings, and that rules of an earlier policy are removed.
func TestPolicyFindingMetric(t *testing.T) {
	policies := &testPolicies{policy: readPolicy(t, "cluster: {limits: {ttl: {max: 1s, mode: warn}}}")}
	validator := webhook.NewValidator(newEngine(), newEnforcer(policies))
	req := newRequest(admissionv1.Create, gang.Job, nil, admit(t, gang.Job, gpuJob))
	validator.Handle(t.Context(), req)
	const series = `rollcall_policy_findings_total{mode="warn",result="violated",rule="cluster/ttl"}`
	if got := readSeries(t, series); got != 1 {
		t.Errorf("%s is %v, want 1", series, got)
	}
	policies.policy = readPolicy(t, "cluster: {limits: {size: {max: 100}}}")
	validator.Handle(t.Context(), req)
	if got := readSeries(t, series); got != 0 {
		t.Errorf("%s is %v with a policy without the rule, want no series", series, got)
	}
}

// readSeries returns the value of a series of a counter, 0 if it does not exist.
func readSeries(t *testing.T, series string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if family.GetName()+"{"+strings.Join(labels, ",")+"}" == series {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
