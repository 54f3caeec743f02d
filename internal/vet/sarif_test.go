package vet_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/vet"
)

// TestSARIF verifies the SARIF output, including paths that need escaping and findings without a
// line.
func TestSARIF(t *testing.T) {
	report := runVet(t, "a: [\n---\n"+testJob{image: "a"}.String())
	for i := range report.Findings {
		report.Findings[i].Source = "a b/c:d.yaml" // The URI must escape the space, and the colon must not end a scheme.
	}
	report.Findings = append(report.Findings, vet.Finding{
		Code: vet.CodeUnreadable, Severity: vet.Error, Source: "standard input", Message: "it is broken",
	})
	text, err := json.Marshal(report.SARIF("v1"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	run := got["runs"].([]any)[0].(map[string]any)
	driver := run["tool"].(map[string]any)["driver"].(map[string]any)
	if rules := driver["rules"].([]any); len(rules) != len(vet.Checks()) {
		t.Errorf("rules: %d, want one for each of %d checks", len(rules), len(vet.Checks()))
	}
	delete(driver, "rules")
	type object = map[string]any
	location := func(uri string, line float64) object {
		physical := object{"artifactLocation": object{"uri": uri}}
		if line > 0 {
			physical["region"] = object{"startLine": line}
		}
		return object{"physicalLocation": physical}
	}
	infoLocation := location("a%20b/c:d.yaml", 8)
	infoLocation["logicalLocations"] = []any{object{"fullyQualifiedName": "default/job/train"}}
	want := object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{object{
			"tool": object{"driver": object{"name": "rollcall vet", "version": "v1"}},
			"results": []any{
				object{
					"ruleId": "Unreadable", "ruleIndex": 0., "level": "error",
					"message":   object{"text": "did not find expected node content"},
					"locations": []any{location("a%20b/c:d.yaml", 1)},
				},
				object{
					"ruleId": "MutableImageTag", "ruleIndex": ruleIndex("MutableImageTag"), "level": "note",
					"message": object{"text": "spec.template.spec.containers[0].image: " +
						"a has no fixed tag, so nodes can run different versions of the image; " +
						"fix: use an immutable tag or a digest"},
					"locations": []any{infoLocation},
				},
				object{
					"ruleId": "Unreadable", "ruleIndex": 0., "level": "error",
					"message":   object{"text": "it is broken"},
					"locations": []any{location("standard%20input", 0)},
				},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ruleIndex returns the position of a check, or -1.
func ruleIndex(c vet.Code) float64 {
	for i, check := range vet.Checks() {
		if check.Code == c {
			return float64(i)
		}
	}
	return -1
}
