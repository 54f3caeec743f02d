package migrate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
)

// TestWrongValues replaces each value of every manifest by values of all types. Migrate reports what it
// cannot read.
func TestWrongValues(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, path := range paths {
		if base := filepath.Base(path); bytes.Count([]byte(base), []byte(".")) > 1 {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		docs, _ := manifest.ReadAll(path, bytes.NewReader(text))
		for _, d := range docs {
			for _, o := range d.Objects() {
				var tree any
				if err := json.Unmarshal(o.JSON, &tree); err != nil {
					t.Fatal(err)
				}
				tried += checkWrongValues(t, fmt.Sprintf("%s %s", path, o.Name), tree, tree)
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d manifests were tried", tried)
	}
	t.Logf("%d manifests", tried)
}

// wrongValues are values of all types.
var wrongValues = []any{nil, "", "$(x", true, -1.0, 0.5, 1e30, 2147483647.0, []any{nil, "x"}, map[string]any{"x": "y"}}

// checkWrongValues replaces the values below a place and returns the number of replacements.
func checkWrongValues(t *testing.T, name string, root, at any) int {
	t.Helper()
	n, tries := 0, 0
	visit := func(path string, old any, set func(any)) {
		for i, value := range wrongValues {
			if (i+len(path)+n)%len(wrongValues) > 0 {
				continue // one of them at each place; all of them over all places
			}
			set(value)
			migrateOrFail(t, fmt.Sprintf("%s, %s is %v", name, path, value), root)
			tries++
		}
		n++
		set(old)
		tries += checkWrongValues(t, name, root, old)
	}
	switch v := at.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if key != "apiVersion" && key != "kind" {
				visit(key, v[key], func(value any) { v[key] = value })
			}
		}
	case []any:
		for i, old := range v {
			visit(fmt.Sprint(i), old, func(value any) { v[i] = value })
		}
	}
	return tries
}

// migrateOrFail migrates a manifest and checks the result.
func migrateOrFail(t *testing.T, name string, root any) {
	t.Helper()
	text, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	docs, errs := manifest.ReadAll("wrong.json", bytes.NewReader(text))
	if len(errs) > 0 {
		t.Fatalf("%s: %v", name, errs)
	}
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s: panic: %v", name, p)
		}
	}()
	failed := t.Failed()
	checkResult(t, docs, migrate.Migrator{Config: webhookConfig}.Migrate(docs))
	if t.Failed() && !failed {
		t.Errorf("%s: the manifest was %s", name, text)
	}
}
