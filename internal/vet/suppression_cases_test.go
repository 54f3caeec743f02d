package vet_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/vet"
)

// newSuppressing returns a Job without a memory limit and with an annotation that suppresses a check.
func newSuppressing(code, reason string) string {
	return testJob{
		resources: "limits: {nvidia.com/gpu: 1}", annotations: "vet.rollcall.training/" + code + ": \"" + reason + "\"",
	}.String()
}

func suppressionCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{vet.CodeSuppression: {
		{name: "the check has a finding", manifest: newSuppressing("NoMemoryLimit", "the node is not shared")},
		{
			name: "the check does not exist", manifest: newSuppressing("NoMemoryLimits", "the node is not shared"),
			want: []string{"metadata.annotations[vet.rollcall.training/NoMemoryLimits]"},
		},
		{
			name: "a reason is missing", manifest: newSuppressing("NoMemoryLimit", " "),
			want: []string{"metadata.annotations[vet.rollcall.training/NoMemoryLimit]"},
		},
		{
			name: "a rejection cannot be suppressed", manifest: newSuppressing("Denied", "no"),
			want: []string{"metadata.annotations[vet.rollcall.training/Denied]"},
		},
		{
			name: "the check has no finding", manifest: newSuppressing("NeverRestarts", "the author decided it"),
			want: []string{"metadata.annotations[vet.rollcall.training/NeverRestarts]"},
		},
	}}
}

// TestSuppression verifies that an annotation hides the findings of its own check and object only.
func TestSuppression(t *testing.T) {
	const reason = "the node is not shared"
	other := testJob{name: "other", resources: "limits: {nvidia.com/gpu: 1}"}.String()
	report := runVet(t, joinDocuments(newSuppressing("NoMemoryLimit", reason), other))
	count := func(findings []vet.Finding) (n int) {
		for _, f := range findings {
			if f.Code == "NoMemoryLimit" {
				n++
			}
		}
		return n
	}
	if count(report.Suppressed) != 1 || count(report.Findings) != 1 {
		t.Errorf("%d suppressed and %d other findings, want 1 and 1", count(report.Suppressed), count(report.Findings))
	}
	if diff := cmp.Diff(reason, report.Suppressed[0].SuppressedBy); diff != "" {
		t.Error("reason (-want +got):\n" + diff)
	}
	sarif, err := json.Marshal(report.SARIF(""))
	if err != nil {
		t.Fatal(err)
	}
	const want = `"justification":"` + reason + `"`
	if !strings.Contains(string(sarif), want) {
		t.Errorf("SARIF does not contain %s", want)
	}
}
