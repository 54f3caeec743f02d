package vet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/manifest"
	"rollcall.training/vet"
)

// adviceOnExamples is what may be said of the examples: they run for a minute, on any
// node, and keep nothing.
var adviceOnExamples = map[vet.Code]bool{
	vet.CodeNoCheckpointVolume: true,
	vet.CodeNoMemoryLimit:      true,
}

// TestExamples: what is shown to users is what this package would have them write.
func TestExamples(t *testing.T) {
	const folder = "../examples"
	var docs []*manifest.Document
	var bad []*manifest.Error
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		got, errs := manifest.ReadAll(path, f)
		docs, bad = append(docs, got...), append(bad, errs...)
		return f.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	r := vet.Run(docs, bad, vet.Options{Engine: injectors.New(injectors.Builtin(), gang.Config{})})
	if r.Workloads < 15 {
		t.Errorf("%d workloads in %s: where are they?", r.Workloads, folder)
	}
	for _, f := range r.Findings {
		if f.Severity != vet.Advice || !adviceOnExamples[f.Code] {
			t.Errorf("%s:%d: %s %s: %s: %s", f.Source, f.Line, f.Severity, f.Code, f.Field, f.Message)
		}
	}
}
