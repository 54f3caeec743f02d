package vet

import (
	"net/url"
	"slices"
	"strings"
)

// object is a JSON object.
type object = map[string]any

// SARIF returns a report as a JSON object of SARIF 2.1.0, an OASIS standard. Code hosts read it to show findings next
// to the lines, and the result contains only what they read. The version is that of the program and may be empty.
func (r Report) SARIF(version string) map[string]any {
	ruleIndexes := map[Code]int{}
	rules, results := []object{}, []object{}
	for i, c := range Checks() {
		ruleIndexes[c.Code] = i
		rules = append(rules, object{
			"id":                   c.Code,
			"shortDescription":     object{"text": c.Title + "."},
			"fullDescription":      object{"text": c.Why},
			"help":                 object{"text": c.Fix},
			"defaultConfiguration": object{"level": c.Severity.sarifLevel()},
		})
	}
	for _, f := range slices.Concat(r.Findings, r.Suppressed) {
		result := object{
			"ruleId":    f.Code,
			"ruleIndex": ruleIndexes[f.Code],
			"level":     f.Severity.sarifLevel(),
			"message":   object{"text": f.sarifMessage()},
			"locations": []object{f.sarifLocation()},
		}
		if f.SuppressedBy != "" { // null and an empty list differ in SARIF
			result["suppressions"] = []object{{"kind": "inSource", "justification": f.SuppressedBy}}
		}
		if f.Rule != "" {
			result["properties"] = object{"policyRule": f.Rule}
		}
		results = append(results, result)
	}
	driver := object{"name": "rollcall vet", "rules": rules}
	if version != "" {
		driver["version"] = version
	}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "results": results}},
	}
}

// sarifLevel returns the SARIF level of a severity. SARIF calls Info a note.
func (s Severity) sarifLevel() string {
	if s == Info {
		return "note"
	}
	return string(s)
}

// sarifMessage returns the field, the message and the fix of a finding as one text.
func (f Finding) sarifMessage() string {
	text := f.Message
	if f.Field != "" {
		text = f.Field + ": " + text
	}
	if f.Fix != "" {
		text += "; fix: " + f.Fix
	}
	return text
}

// sarifLocation returns the position of a finding. Zero values of Line and Object are omitted.
func (f Finding) sarifLocation() object {
	// SARIF needs a URI reference. Without escaping, a colon in the path would end a scheme.
	uri := (&url.URL{Path: strings.ReplaceAll(f.Source, `\`, "/")}).String()
	physical := object{"artifactLocation": object{"uri": uri}}
	if f.Line > 0 {
		physical["region"] = object{"startLine": f.Line}
	}
	location := object{"physicalLocation": physical}
	if f.Object != "" {
		location["logicalLocations"] = []object{{"fullyQualifiedName": f.Namespace + "/" + f.Object}}
	}
	return location
}
