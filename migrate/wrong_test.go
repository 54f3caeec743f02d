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

	"rollcall.training/manifest"
	"rollcall.training/migrate"
)

// TestWrongValues puts values of every type into every place of every manifest: what
// cannot be read is said, and nothing is lost without a word.
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
				if err := json.Unmarshal(o.Text, &tree); err != nil {
					t.Fatal(err)
				}
				tried += wrong(t, fmt.Sprintf("%s %s", path, o.Name), tree, tree)
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d manifests were tried", tried)
	}
	t.Logf("%d manifests", tried)
}

// wrongValues are of all types, and of none.
var wrongValues = []any{nil, "", "$(x", true, -1.0, 0.5, 1e30, 2147483647.0, []any{nil, "x"}, map[string]any{"x": "y"}}

// wrong replaces what is below a place, one value after the other, and counts them.
func wrong(t *testing.T, name string, root, at any) int {
	t.Helper()
	n, tries := 0, 0
	visit := func(path string, old any, set func(any)) {
		for i, value := range wrongValues {
			if (i+len(path)+n)%3 > 0 {
				continue // a third of them at each place; all of them over all places
			}
			set(value)
			try(t, fmt.Sprintf("%s, %s is %v", name, path, value), root)
			tries++
		}
		n++
		set(old)
		tries += wrong(t, name, root, old)
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

// try migrates a manifest, and says which it was where that went wrong.
func try(t *testing.T, name string, root any) {
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
	checkResult(t, docs, migrate.Migrator{Config: config}.Migrate(docs))
	if t.Failed() && !failed {
		t.Errorf("%s: the manifest was %s", name, text)
	}
}
