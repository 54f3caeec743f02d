package vet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// The form of SARIF 2.1.0 (OASIS), by which hosts of code show findings beside the lines
// that they are about. Of the standard this is what they read.
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

// level is the word of SARIF for a severity.
func (s Severity) level() string {
	if s == Advice {
		return "note"
	}
	return string(s)
}

// WriteSARIF writes a report as SARIF 2.1.0. The version is that of the program, and may
// be empty.
func WriteSARIF(w io.Writer, r Report, version string) error {
	one := sarifRun{Tool: sarifTool{Driver: sarifDriver{Name: "rollcall vet", Version: version}}, Results: []sarifResult{}}
	index := map[Code]int{}
	for i, c := range Checks() {
		index[c.Code] = i
		one.Tool.Driver.Rules = append(one.Tool.Driver.Rules, sarifRule{
			ID: string(c.Code), Short: sarifText{c.Title + "."}, Full: sarifText{c.Why}, Help: sarifText{c.Fix}, Configuration: sarifSeverity{c.Severity.level()},
		})
	}
	for _, f := range r.Findings {
		one.Results = append(one.Results, sarifResult{
			RuleID: string(f.Code), RuleIndex: index[f.Code], Level: f.Severity.level(), Message: sarifText{f.sentence()}, Locations: []sarifLocation{f.location()},
		})
	}
	text, err := json.MarshalIndent(sarifLog{Schema: sarifSchema, Version: sarifVersion, Runs: []sarifRun{one}}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	return nil
}

// sentence is the whole finding but its place in the file.
func (f Finding) sentence() string {
	text := f.Message
	if f.Field != "" {
		text = f.Field + ": " + text
	}
	if f.Fix != "" {
		text += "; fix: " + f.Fix
	}
	return text
}

func (f Finding) location() sarifLocation {
	// A path is a reference once it is escaped; a colon in it would begin a scheme.
	l := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{(&url.URL{Path: strings.ReplaceAll(f.Source, `\`, "/")}).String()}}}
	if f.Line > 0 {
		l.Physical.Region = &sarifRegion{f.Line}
	}
	if f.Object != "" {
		l.Logical = []sarifLogical{{FullName: f.Namespace + "/" + f.Object}}
	}
	return l
}
