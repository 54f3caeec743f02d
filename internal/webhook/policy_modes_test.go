package webhook_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/webhook"
)

// harshPolicy sets every kind of default, and denies almost every gang.
const harshPolicy = `
cluster:
  defaults:
    runtime: 24h
    ttl: {value: 168h, locked: true}
    restarts: 0
    queue: all
    priorityClass: {value: low, locked: true}
    labels: {cost-center: "1"}
    annotations: {rollcall.training/start-timeout: 30m}
    podAnnotations: {example.com/network: ib}
    nodeSelector: {pool: shared}
    tolerations: [{key: nvidia.com/gpu, operator: Exists}]
    env: {NCCL_DEBUG: WARN}
    resources: {rdma/hca: "1"}
  limits:
    size: {max: 1}
    disruptions: {max: 0}
    images: {allow: {"*": [registry.invalid/]}}
  rules: [{name: never, expression: "false"}]
profiles:
- {name: a, namespaces: {names: ["*"]}, defaults: {env: {NCCL_IB_HCA: mlx5}}, limits: {restarts: {max: 0}}}
`

// TestModesThatChangeNothing verifies for all golden inputs that a policy whose mode or ceiling is audit, off or warn
// admits the same bytes as no policy, and that only warn has additional warnings.
func TestModesThatChangeNothing(t *testing.T) {
	read := func(mode string) *policy.Policy { return readPolicy(t, "mode: \""+mode+"\""+harshPolicy) }
	policies := map[string]*policy.Policy{
		"the mode audit":    read("audit"),
		"the mode off":      read("off"),
		"the mode warn":     read("warn"),
		"the ceiling audit": read("enforce").WithCeiling(policy.ModeAudit),
		"the ceiling off":   read("enforce").WithCeiling(policy.ModeOff),
		"the ceiling warn":  read("enforce").WithCeiling(policy.ModeWarn),
	}
	enforced := newEnforcer(&testPolicies{policy: read("enforce")})
	changed, denied := 0, 0
	for name, request := range readGoldenRequests(t) {
		mutated, validated := admitBoth(t, request, nil)
		for which, p := range policies {
			got, gotValidated := admitBoth(t, request, newEnforcer(&testPolicies{policy: p}))
			if !strings.Contains(which, "warn") {
				if diff := cmp.Diff(mutated.Warnings, got.Warnings); diff != "" {
					t.Errorf("%s: %s changes the warnings (-without +with):\n%s", name, which, diff)
				}
			}
			if !bytes.Equal(mutated.Patch, got.Patch) || mutated.Allowed != got.Allowed {
				t.Errorf("%s: %s changes the admission:\n%s", name, which, cmp.Diff(string(mutated.Patch), string(got.Patch)))
			}
			if validated.Allowed != gotValidated.Allowed {
				t.Errorf("%s: %s denies the workload: %v", name, which, gotValidated.Result)
			}
		}
		if mutated.Allowed && len(mutated.Patch) > 0 {
			got, gotValidated := admitBoth(t, request, enforced)
			if !bytes.Equal(mutated.Patch, got.Patch) {
				changed++
			}
			if !gotValidated.Allowed {
				denied++
			}
		}
	}
	if changed < 100 || denied < 100 {
		t.Errorf("in the mode enforce, the policy changes %d workloads and denies %d; the comparison proves nothing",
			changed, denied)
	}
}

// admitBoth returns the responses of both phases of admission.
func admitBoth(
	t *testing.T, req admission.Request, enforcer *webhook.PolicyEnforcer,
) (mutated, validated admission.Response) {
	t.Helper()
	mutated = webhook.NewMutator(newEngine(), enforcer).Handle(t.Context(), req)
	if !mutated.Allowed {
		return mutated, validated
	}
	req.Object.Raw = applyPatch(t, req.Object.Raw, mutated)
	return mutated, webhook.NewValidator(newEngine(), enforcer).Handle(t.Context(), req)
}

// readGoldenRequests returns the creation of each Job and StatefulSet in the golden inputs of the injectors, and in
// the folder plain of the collection that CONTRIBUTING.md describes.
func readGoldenRequests(t *testing.T) map[string]admission.Request {
	t.Helper()
	requests := map[string]admission.Request{}
	visit := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		documents, _ := manifest.ReadAll(path, bytes.NewReader(text)) // a collection can contain templates
		for _, object := range manifest.ListObjects(documents) {
			kind := gang.Kind(object.Kind)
			if kind == gang.Job || kind == gang.StatefulSet {
				requests[object.Document.String()] = newRequest(admissionv1.Create, kind, nil, object.JSON)
			}
		}
		return nil
	}
	folders := []string{"../../injectors"}
	if corpus := os.Getenv("ROLLCALL_TEST_CORPUS"); corpus != "" {
		folders = append(folders, filepath.Join(corpus, "plain"))
	}
	for _, folder := range folders {
		if err := filepath.WalkDir(folder, visit); err != nil {
			t.Fatal(err)
		}
	}
	return requests
}
