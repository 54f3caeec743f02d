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

	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/ledger"
)

// cases are the manifests of the systems whose readers take what comes, as trees: one for
// each document.
func cases(t *testing.T, systems ...string) map[string][]map[string]any {
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
			for _, d := range read(t, f) {
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

// place is where a value stands, and how to put another there.
type place struct {
	path string
	set  func(v any) (undo func())
	in   any // the object or list that holds it
}

// places are those of all values below.
func places(path string, v any) []place {
	var out []place
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			p := strings.TrimPrefix(path+"."+k, ".")
			out = append(out, place{p, func(next any) func() { v[k] = next; return func() { v[k] = child } }, v})
			out = append(out, places(p, child)...)
		}
	case []any:
		for i, child := range v {
			p := fmt.Sprintf("%s[%d]", path, i)
			out = append(out, place{p, func(next any) func() { v[i] = next; return func() { v[i] = child } }, v})
			out = append(out, places(p, child)...)
		}
	}
	slices.SortFunc(out, func(a, b place) int { return strings.Compare(a.path, b.path) })
	return out
}

// migrated runs the documents through a migration, as text.
func migrated(t *testing.T, trees []map[string]any) migrate.Result {
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
	return migrate.Migrator{Namespace: "default", Config: config}.Migrate(docs)
}

// TestMutation puts values of every type in the place of each value of each TrainJob and
// of each runtime, with the other beside it. Whatever comes, a migration answers: each job
// has a report, and one without a mistake has a result.
func TestMutation(t *testing.T) {
	values := []any{nil, json.Number("-1"), json.Number("9999999999"), "", "$(x) \x00 é", true, []any{nil}, map[string]any{"name": nil}}
	for file, trees := range cases(t, "trainer") {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			t.Parallel()
			for _, tree := range trees {
				mutate(t, trees, tree, values)
			}
		})
	}
}

func mutate(t *testing.T, trees []map[string]any, tree map[string]any, values []any) {
	t.Helper()
	among := slices.DeleteFunc(slices.Clone(trees), func(o map[string]any) bool { // jobs know of runtimes, and of no other job
		return !strings.HasSuffix(fmt.Sprint(o["kind"]), "Runtime") && name(o) != name(tree)
	})
	for _, p := range places("", tree) {
		if strings.HasPrefix(p.path, "apiVersion") || strings.HasPrefix(p.path, "kind") {
			continue // it would be no job of the system any more
		}
		for _, v := range values {
			undo := p.set(v)
			for _, r := range migrated(t, among).Reports {
				if !r.Failed() && len(r.Into) == 0 && !strings.Contains(r.Object, "Runtime") {
					t.Errorf("%s = %v: %s has neither a mistake nor a result", p.path, v, r.Object)
				}
			}
			undo()
		}
	}
}

// free are the objects in which users choose the names of the fields.
var free = []string{"labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests", "networkTopology", "data"}

// unknowns are values of fields that nobody knows. What is empty may be a wish all the same,
// as an emptyDir is.
var unknowns = []any{"unknown", "", map[string]any{}, []any{}, json.Number("0"), false}

// TestUnknown adds a field that nobody knows to each object of each manifest, within the pod
// templates too. None of them is lost in silence.
func TestUnknown(t *testing.T) {
	for file, trees := range cases(t, "jobset", "trainer", "kubeflow", "kubeflow-coscheduling", "kubeflow-volcano", "volcano-job") {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			t.Parallel()
			for _, tree := range trees {
				if group, _, _ := strings.Cut(fmt.Sprint(tree["apiVersion"]), "/"); migrate.Knows(group) {
					unknown(t, trees, tree)
				}
			}
		})
	}
}

func unknown(t *testing.T, trees []map[string]any, tree map[string]any) {
	t.Helper()
	runtime := strings.HasSuffix(fmt.Sprint(tree["kind"]), "Runtime")
	if runtime && name(tree) == "nobody-uses-it" {
		return // all of it is left out, which is said of its spec
	}
	among := slices.DeleteFunc(slices.Clone(trees), func(o map[string]any) bool { // jobs know of runtimes, and of no other job
		return !runtime && !strings.HasSuffix(fmt.Sprint(o["kind"]), "Runtime") && (o["kind"] != tree["kind"] || name(o) != name(tree))
	})
	reports := migrated(t, among).Reports
	if len(reports) == 0 || slices.ContainsFunc(reports, migrate.Report.Failed) {
		return // it passes through, or is not migrated, which is said
	}
	for i, p := range append(places("", tree), place{path: "", in: tree}) {
		at := valueAt(tree, p.path)
		m, ok := at.(map[string]any)
		field := p.path[strings.LastIndexByte(p.path, '.')+1:]
		if !ok || slices.Contains(free, field) || p.path == "metadata" || strings.HasPrefix(p.path, "status") {
			continue
		}
		value := unknowns[i%len(unknowns)]
		m["zzz"] = value
		if told(t, among, tree, strings.TrimPrefix(p.path+".zzz", ".")) == "" {
			t.Errorf("%s %s: field zzz of %q, which is %#v, was lost in silence", tree["kind"], tree["metadata"], p.path, value)
		}
		delete(m, "zzz")
	}
}

// told says how the reports account for a field of a tree that nobody knows.
func told(t *testing.T, trees []map[string]any, tree map[string]any, path string) string {
	t.Helper()
	for _, r := range migrated(t, trees).Reports {
		if r.Failed() {
			return "the object is not migrated"
		}
		for _, e := range r.Entries {
			if strings.HasSuffix(e.Path, "zzz") && strings.HasSuffix(e.Path, path) {
				return string(e.Outcome)
			}
			// What is left out as a whole, or what nobody uses, is told of as a whole.
			own := strings.TrimPrefix(e.Path, fmt.Sprintf("%s/%s.", tree["kind"], name(tree)))
			parts := slices.ContainsFunc(r.Entries, func(o ledger.Entry) bool { return below(o.Path, e.Path) })
			if e.Outcome != ledger.Carried && e.To == "" && below(path, own) && (!parts || strings.HasPrefix(e.Reason, "left out")) {
				return "with all that holds it"
			}
		}
	}
	return ""
}

// below reports whether a path is that of something within another.
func below(path, within string) bool {
	return strings.HasPrefix(path, within+".") || strings.HasPrefix(path, within+"[")
}

func name(tree map[string]any) any {
	meta, _ := tree["metadata"].(map[string]any)
	return meta["name"]
}

// valueAt is what stands at a path as [places] write it.
func valueAt(v any, path string) any {
	for _, p := range places("", v) {
		if p.path != path {
			continue
		}
		undo := p.set(nil)
		undo()
		switch in := p.in.(type) {
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

// TestDeterministic migrates the same twice: nothing hangs on the order of a map.
func TestDeterministic(t *testing.T) {
	for file, trees := range cases(t, "jobset", "trainer") {
		first, again := migrated(t, trees), migrated(t, trees)
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
