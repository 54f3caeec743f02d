package vet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/vet"
)

// TestExamples verifies that the examples for users have no findings.
func TestExamples(t *testing.T) {
	const folder = "../../examples"
	var docs []*manifest.Document
	var unreadable []*manifest.Error
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		got, errs := manifest.ReadAll(path, f)
		docs, unreadable = append(docs, got...), append(unreadable, errs...)
		return f.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	r := vet.Run(docs, unreadable, vet.Options{Engine: injectors.NewEngine(injectors.Builtin(), gang.Config{})})
	if r.Workloads < 15 {
		t.Errorf("found only %d workloads in %s", r.Workloads, folder)
	}
	for _, f := range r.Findings {
		t.Errorf("%s:%d: %s %s: %s: %s", f.Source, f.Line, f.Severity, f.Code, f.Field, f.Message)
	}
}
