package vet_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/vet"
)

// testPolicy is the policy of all cases. It limits the namespaces limited and labeled only.
const testPolicy = `
apiVersion: policy.rollcall.training/v1alpha1
kind: GangPolicy
profiles:
- name: limited
  namespaces: {names: [limited]}
  limits: {size: {max: 2}, gpus: {max: 8, mode: warn}, restarts: {max: 1, mode: audit}}
- name: labeled
  namespaces: {selector: {matchLabels: {tier: free}}}
  limits: {size: {max: 1}}
`

const oneGPU = "limits: {memory: 1Gi, nvidia.com/gpu: 1}"

// inNamespace adds a namespace to the metadata of a manifest.
func inNamespace(namespace, manifest string) string {
	return strings.ReplaceAll(manifest, "metadata: {name: ", "metadata: {namespace: "+namespace+", name: ")
}

func policyCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{vet.CodePolicyViolated: {
		{
			name:     "gang is too large for its namespace",
			manifest: inNamespace("limited", testJob{ranks: 3}.String()),
			want:     []string{"spec.parallelism"},
		},
		{
			name:     "gang fits",
			manifest: inNamespace("limited", testJob{ranks: 2}.String()),
		},
		{name: "no profile matches the namespace", manifest: testJob{ranks: 3}.String()},
		{
			name: "labels of a namespace in the input select the profile",
			manifest: joinDocuments("apiVersion: v1\nkind: Namespace\nmetadata: {name: free, labels: {tier: free}}\n",
				inNamespace("free", testJob{ranks: 2}.String())),
			want: []string{"spec.parallelism"},
		},
	}}
}

// TestPolicySeverities verifies that the mode of a rule determines the severity.
func TestPolicySeverities(t *testing.T) {
	manifest := inNamespace("limited", testJob{ranks: 10, resources: oneGPU, annotations: restartAnnotation}.String())
	var got []string
	for _, f := range runVet(t, manifest).Findings {
		if f.Code == vet.CodePolicyViolated {
			_, rule, _ := strings.Cut(f.Message, "(policy ")
			got = append(got, string(f.Severity)+" "+strings.TrimSuffix(rule, ")"))
		}
	}
	want := []string{"error limited/size", "warning limited/gpus", "info limited/restarts"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("findings (-want +got):\n" + diff)
	}
}
