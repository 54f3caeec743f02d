package vet_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/vet"
)

func TestSARIF(t *testing.T) {
	report := look(t, "a: [\n---\n"+job{image: "a"}.String())
	for i := range report.Findings {
		report.Findings[i].Source = "a b/c:d.yaml" // neither a scheme, nor with a space
	}
	report.Findings = append(report.Findings, vet.Finding{Code: vet.CodeUnreadable, Severity: vet.Error, Source: "standard input", Message: "it is broken"})
	var out bytes.Buffer
	if err := vet.WriteSARIF(&out, report, "v1"); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	run := got["runs"].([]any)[0].(map[string]any)
	driver := run["tool"].(map[string]any)["driver"].(map[string]any)
	if rules := driver["rules"].([]any); len(rules) != len(vet.Checks()) {
		t.Errorf("%d rules for %d checks", len(rules), len(vet.Checks()))
	}
	delete(driver, "rules")
	type object = map[string]any
	at := func(uri string, line float64) object {
		l := object{"artifactLocation": object{"uri": uri}}
		if line > 0 {
			l["region"] = object{"startLine": line}
		}
		return object{"physicalLocation": l}
	}
	advice := at("a%20b/c:d.yaml", 8)
	advice["logicalLocations"] = []any{object{"fullyQualifiedName": "default/job/train"}}
	want := object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{object{
			"tool": object{"driver": object{"name": "rollcall vet", "version": "v1"}},
			"results": []any{
				object{"ruleId": "Unreadable", "ruleIndex": 0., "level": "error", "message": object{"text": "did not find expected node content"}, "locations": []any{at("a%20b/c:d.yaml", 1)}},
				object{"ruleId": "FloatingImage", "ruleIndex": ruleIndex(vet.CodeFloatingImage), "level": "note", "message": object{
					"text": "spec.template.spec.containers[0].image: a can mean another program on each node; fix: name a tag that does not move, or a digest"}, "locations": []any{advice}},
				object{"ruleId": "Unreadable", "ruleIndex": 0., "level": "error", "message": object{"text": "it is broken"}, "locations": []any{at("standard%20input", 0)}},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func ruleIndex(c vet.Code) float64 {
	for i, check := range vet.Checks() {
		if check.Code == c {
			return float64(i)
		}
	}
	return -1
}
