package vet

import (
	"encoding/json"
	"fmt"
	"io"
)

// jsonReport is the JSON format of a report. Its fields are stable: later releases add fields, but
// never rename or remove any.
type jsonReport struct {
	Workloads int         `json:"workloads"`
	Unchecked []KindCount `json:"unchecked,omitempty"`
	Errors    int         `json:"errors"`
	Warnings  int         `json:"warnings"`
	Infos     int         `json:"infos"`
	Findings  []Finding   `json:"findings"`
	// Suppressed are the findings that annotations suppress.
	Suppressed []Finding `json:"suppressed,omitempty"`
}

// WriteJSON writes a report as one JSON object. The findings of an empty report are an empty list,
// not null.
func WriteJSON(w io.Writer, r Report) error {
	return writeJSON(w, jsonReport{
		Workloads:  r.Workloads,
		Unchecked:  r.Unchecked,
		Errors:     r.Count(Error),
		Warnings:   r.Count(Warning),
		Infos:      r.Count(Info),
		Findings:   append([]Finding{}, r.Findings...),
		Suppressed: r.Suppressed,
	})
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
