package vet

import (
	"encoding/json"
	"fmt"
	"io"
)

// document is the form of a report for programs. Fields are added to it, and never
// renamed or taken away.
type document struct {
	Workloads int       `json:"workloads"`
	Errors    int       `json:"errors"`
	Warnings  int       `json:"warnings"`
	Advice    int       `json:"advice"`
	Findings  []Finding `json:"findings"`
}

// WriteJSON writes a report as one JSON object, whose findings are a list even where
// there are none.
func WriteJSON(w io.Writer, r Report) error {
	out := document{
		Workloads: r.Workloads, Errors: r.Count(Error), Warnings: r.Count(Warning), Advice: r.Count(Advice),
		Findings: append([]Finding{}, r.Findings...),
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	return nil
}
