package migrate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// readCases returns the manifests of the given systems as decoded JSON: one element for each document.
func readCases(t *testing.T, systems ...string) map[string][]map[string]any {
	t.Helper()
	out := map[string][]map[string]any{}
	for _, system := range systems {
		files, err := filepath.Glob(filepath.Join("testdata", system, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files: %v", system, len(files), err)
		}
		for _, f := range files {
			if strings.Contains(filepath.Base(f), ".out.") || strings.Contains(filepath.Base(f), ".report.") {
				continue
			}
			for _, d := range readDocuments(t, f) {
				for _, o := range d.Objects() {
					var tree map[string]any
					if err := o.Decode(&tree); err != nil {
						t.Fatal(err)
					}
					out[f] = append(out[f], tree)
				}
			}
		}
	}
	return out
}

// valueLocation is a place in a manifest. The function set replaces its value.
type valueLocation struct {
	path   string
	set    func(v any) (undo func())
	parent any // the object or list that holds it
}

// findValues returns the places of all values below v.
func findValues(path string, v any) []valueLocation {
	var out []valueLocation
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			p := strings.TrimPrefix(path+"."+k, ".")
			out = append(out, valueLocation{p, func(next any) func() { v[k] = next; return func() { v[k] = child } }, v})
			out = append(out, findValues(p, child)...)
		}
	case []any:
		for i, child := range v {
			p := fmt.Sprintf("%s[%d]", path, i)
			out = append(out, valueLocation{p, func(next any) func() { v[i] = next; return func() { v[i] = child } }, v})
			out = append(out, findValues(p, child)...)
		}
	}
	slices.SortFunc(out, func(a, b valueLocation) int { return strings.Compare(a.path, b.path) })
	return out
}

// migrateTrees migrates decoded documents.
func migrateTrees(t *testing.T, trees []map[string]any) migrate.Result {
	t.Helper()
	var docs []*manifest.Document
	for _, tree := range trees {
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		more, err := manifest.Read("mutation", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, more...)
	}
	return migrate.Migrator{Namespace: "default", Config: webhookConfig}.Migrate(docs)
}

// TestMutation replaces each value of each TrainJob and runtime by values of all types. Each job has a
// report, and each job without an error has a result.
func TestMutation(t *testing.T) {
	values := []any{
		nil, json.Number("-1"), json.Number("9999999999"), "", "$(x) \x00 é", true, []any{nil}, map[string]any{"name": nil},
	}
	for file, trees := range readCases(t, "trainer") {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			t.Parallel()
			for _, tree := range trees {
				checkMutations(t, trees, tree, values)
			}
		})
	}
}

func checkMutations(t *testing.T, trees []map[string]any, tree map[string]any, values []any) {
	t.Helper()
	// Jobs depend on runtimes, and not on other jobs.
	among := slices.DeleteFunc(slices.Clone(trees), func(o map[string]any) bool {
		return !strings.HasSuffix(fmt.Sprint(o["kind"]), "Runtime") && objectName(o) != objectName(tree)
	})
	for _, p := range findValues("", tree) {
		if strings.HasPrefix(p.path, "apiVersion") || strings.HasPrefix(p.path, "kind") {
			continue // the object would not be a job of the system
		}
		for _, v := range values {
			undo := p.set(v)
			for _, r := range migrateTrees(t, among).Reports {
				if !r.Failed() && len(r.Outputs) == 0 && !strings.Contains(r.Object, "Runtime") {
					t.Errorf("%s = %v: %s has neither an error nor a result", p.path, v, r.Object)
				}
			}
			undo()
		}
	}
}

// userKeyedFields are the objects whose fields users name.
var userKeyedFields = []string{
	"labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests", "networkTopology", "data",
}

// unknownValues are values of unknown fields. Empty values can have a meaning, as for emptyDir.
var unknownValues = []any{"unknown", "", map[string]any{}, []any{}, json.Number("0"), false}

// TestUnknownFields adds an unknown field to each object of each manifest, including pod templates. Each
// of them is in the report.
func TestUnknownFields(t *testing.T) {
	folders := []string{"jobset", "trainer", "kubeflow", "kubeflow-coscheduling", "kubeflow-volcano", "volcano-job"}
	for file, trees := range readCases(t, folders...) {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			t.Parallel()
			for _, tree := range trees {
				group, _, _ := strings.Cut(fmt.Sprint(tree["apiVersion"]), "/")
				if source.IsJobKind(group, fmt.Sprint(tree["kind"])) || strings.HasSuffix(fmt.Sprint(tree["kind"]), "Runtime") {
					checkUnknownFields(t, trees, tree)
				}
			}
		})
	}
}

func checkUnknownFields(t *testing.T, trees []map[string]any, tree map[string]any) {
	t.Helper()
	runtime := strings.HasSuffix(fmt.Sprint(tree["kind"]), "Runtime")
	if runtime && objectName(tree) == "nobody-uses-it" {
		return // one entry covers its spec
	}
	// Jobs depend on runtimes, and not on other jobs.
	among := slices.DeleteFunc(slices.Clone(trees), func(o map[string]any) bool {
		isOther := o["kind"] != tree["kind"] || objectName(o) != objectName(tree)
		return !runtime && !strings.HasSuffix(fmt.Sprint(o["kind"]), "Runtime") && isOther
	})
	reports := migrateTrees(t, among).Reports
	if len(reports) == 0 || slices.ContainsFunc(reports, migrate.Report.Failed) {
		return // it passes through or is rejected
	}
	for i, p := range append(findValues("", tree), valueLocation{path: "", parent: tree}) {
		at := valueAt(tree, p.path)
		m, ok := at.(map[string]any)
		field := p.path[strings.LastIndexByte(p.path, '.')+1:]
		if !ok || slices.Contains(userKeyedFields, field) || p.path == "metadata" || strings.HasPrefix(p.path, "status") {
			continue
		}
		value := unknownValues[i%len(unknownValues)]
		m["zzz"] = value
		if reportedOutcome(t, among, tree, strings.TrimPrefix(p.path+".zzz", ".")) == "" {
			t.Errorf("%s %s: field zzz of %q, which is %#v, is not in the report", tree["kind"], tree["metadata"], p.path, value)
		}
		delete(m, "zzz")
	}
}

// reportedOutcome returns the outcome of an unknown field in the reports, or "".
func reportedOutcome(t *testing.T, trees []map[string]any, tree map[string]any, path string) string {
	t.Helper()
	for _, r := range migrateTrees(t, trees).Reports {
		if r.Failed() {
			return "the object is not migrated"
		}
		for _, e := range r.Entries {
			if strings.HasSuffix(e.Path, "zzz") && strings.HasSuffix(e.Path, path) {
				return string(e.Outcome)
			}
			// One entry covers an object that is left out or that no job uses.
			own := strings.TrimPrefix(e.Path, fmt.Sprintf("%s/%s.", tree["kind"], objectName(tree)))
			parts := slices.ContainsFunc(r.Entries, func(o source.Entry) bool { return isBelow(o.Path, e.Path) })
			if e.Outcome != source.Preserved && e.To == "" && isBelow(path, own) &&
				(!parts || strings.HasPrefix(e.Reason, "left out")) {
				return "covered by a parent"
			}
		}
	}
	return ""
}

// isBelow reports whether a path is below another one.
func isBelow(path, within string) bool {
	return strings.HasPrefix(path, within+".") || strings.HasPrefix(path, within+"[")
}

func objectName(tree map[string]any) any {
	meta, _ := tree["metadata"].(map[string]any)
	return meta["name"]
}

// valueAt returns the value at a path of [findValues].
func valueAt(v any, path string) any {
	for _, p := range findValues("", v) {
		if p.path != path {
			continue
		}
		undo := p.set(nil)
		undo()
		switch in := p.parent.(type) {
		case map[string]any:
			return in[path[strings.LastIndexByte(path, '.')+1:]]
		case []any:
			var i int
			if _, err := fmt.Sscanf(path[strings.LastIndexByte(path, '['):], "[%d]", &i); err == nil {
				return in[i]
			}
		}
	}
	if path == "" {
		return v
	}
	return nil
}

// TestDeterministic migrates the same input twice and compares the results.
func TestDeterministic(t *testing.T) {
	for file, trees := range readCases(t, "jobset", "trainer") {
		first, again := migrateTrees(t, trees), migrateTrees(t, trees)
		if diff := cmp.Diff(first.Reports, again.Reports); diff != "" {
			t.Errorf("%s: the reports differ:\n%s", file, diff)
		}
		for i := range first.Documents {
			var a, b bytes.Buffer
			if err := manifest.Write(&a, manifest.YAML, first.Documents[i:i+1]); err != nil {
				t.Fatal(err)
			}
			if err := manifest.Write(&b, manifest.YAML, again.Documents[i:i+1]); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(a.String(), b.String()); diff != "" {
				t.Errorf("%s: the documents differ:\n%s", file, diff)
			}
		}
	}
}
