package vet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// SARIF 2.1.0 is an OASIS standard. Code hosts read it to show findings next to the lines. The
// types contain only the properties that code hosts read.
const (
	sarifVersion = "2.1.0"
	sarifSchema  = "https://json.schemastore.org/sarif-2.1.0.json"
)

type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID            string        `json:"id"`
		Short         sarifText     `json:"shortDescription"`
		Full          sarifText     `json:"fullDescription"`
		Help          sarifText     `json:"help"`
		Configuration sarifSeverity `json:"defaultConfiguration"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifSeverity struct {
		Level string `json:"level"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
		// Suppressions hides a result; null and an empty list differ in SARIF.
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
		Properties   *sarifProperties   `json:"properties,omitempty"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
	sarifProperties struct {
		Rule string `json:"policyRule"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		FullName string `json:"fullyQualifiedName"`
	}
)

// sarifLevel returns the SARIF level of a severity. SARIF calls Info a note.
func (s Severity) sarifLevel() string {
	if s == Info {
		return "note"
	}
	return string(s)
}

// WriteSARIF writes a report as SARIF 2.1.0. The version is the version of the program and may be
// empty.
func WriteSARIF(w io.Writer, r Report, version string) error {
	run := sarifRun{
		Tool:    sarifTool{Driver: sarifDriver{Name: "rollcall vet", Version: version}},
		Results: []sarifResult{},
	}
	ruleIndexes := map[Code]int{}
	for i, c := range Checks() {
		ruleIndexes[c.Code] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID:            string(c.Code),
			Short:         sarifText{c.Title + "."},
			Full:          sarifText{c.Why},
			Help:          sarifText{c.Fix},
			Configuration: sarifSeverity{c.Severity.sarifLevel()},
		})
	}
	for _, f := range slices.Concat(r.Findings, r.Suppressed) {
		result := sarifResult{
			RuleID:    string(f.Code),
			RuleIndex: ruleIndexes[f.Code],
			Level:     f.Severity.sarifLevel(),
			Message:   sarifText{f.sarifMessage()},
			Locations: []sarifLocation{f.toSARIFLocation()},
		}
		if f.SuppressedBy != "" {
			result.Suppressions = []sarifSuppression{{Kind: "inSource", Justification: f.SuppressedBy}}
		}
		if f.Rule != "" {
			result.Properties = &sarifProperties{Rule: f.Rule}
		}
		run.Results = append(run.Results, result)
	}
	text, err := json.MarshalIndent(sarifLog{Schema: sarifSchema, Version: sarifVersion, Runs: []sarifRun{run}}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
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

// toSARIFLocation returns the position of a finding. Zero values of Line and Object are omitted.
func (f Finding) toSARIFLocation() sarifLocation {
	// SARIF needs a URI reference. Without escaping, a colon in the path would end a scheme.
	uri := (&url.URL{Path: strings.ReplaceAll(f.Source, `\`, "/")}).String()
	l := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{uri}}}
	if f.Line > 0 {
		l.Physical.Region = &sarifRegion{f.Line}
	}
	if f.Object != "" {
		l.Logical = []sarifLogical{{FullName: f.Namespace + "/" + f.Object}}
	}
	return l
}
