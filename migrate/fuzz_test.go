package migrate_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall.training/injectors"
	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/kubeflow"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// FuzzMigrate migrates whatever can be read. Nothing panics; a job that is migrated has
// an account of each of its spec's values; and what comes out has nothing left to migrate.
func FuzzMigrate(f *testing.F) {
	err := filepath.WalkDir("testdata", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".yaml") || strings.Contains(strings.TrimSuffix(filepath.Base(path), ".yaml"), ".") {
			return err
		}
		text, err := os.ReadFile(path)
		f.Add(text)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, _ := manifest.ReadAll("fuzz.yaml", bytes.NewReader(text))
		for _, scheduler := range []origin.Scheduler{"", origin.Volcano} {
			checkResult(t, docs, migrate.Migrator{Config: config, Scheduler: scheduler}.Migrate(docs))
		}
	})
}

func checkResult(t *testing.T, docs []*manifest.Document, result migrate.Result) {
	t.Helper()
	// The specs of documents that hold one job of Kubeflow's operators. The other systems have
	// fields that are names for their own use alone, such as a task's; their readers pass them
	// by on purpose, and have tests of their own that none is lost.
	specs := map[int][]any{}
	for _, d := range docs {
		objects := d.Objects()
		var tree map[string]any
		if len(objects) == 1 && strings.HasPrefix(objects[0].APIVersion, kubeflow.Group+"/") && objects[0].Decode(&tree) == nil {
			specs[d.Number] = append(specs[d.Number], tree["spec"])
		}
	}
	for _, r := range result.Reports {
		if r.Failed() && len(r.Into) > 0 {
			t.Errorf("%s became %v, with mistakes %q", r.Object, r.Into, r.Mistakes)
		}
		if r.Failed() || r.Through || len(specs[r.Document]) != 1 {
			continue
		}
		var account ledger.Ledger
		spec := specs[r.Document][0]
		unaccounted(t, account.Root(map[string]any{"spec": spec}).Get("spec"), spec, r)
	}
	admitted(t, docs, result.Documents)
	again(t, result.Documents)
}

// admitted has the webhook's engine look at what came out, unless it went in like that.
func admitted(t *testing.T, before, after []*manifest.Document) {
	t.Helper()
	given := map[string]bool{}
	for _, d := range before {
		for _, o := range d.Objects() {
			given[o.Kind+"/"+o.Name] = true
		}
	}
	engine := injectors.New(injectors.Builtin(), config)
	for _, d := range after {
		for _, o := range d.Objects() {
			w, _, ok, err := o.Workload()
			if !ok || given[o.Kind+"/"+o.Name] || !w.Labelled() {
				continue
			}
			if err != nil {
				t.Errorf("%s %s cannot be read: %v", o.Kind, o.Name, err)
				continue
			}
			if _, err := engine.Inject(w); err != nil {
				t.Errorf("%s %s: %v", o.Kind, o.Name, err)
			}
		}
	}
}

// unaccounted finds values of which a report says nothing, neither by their own paths nor
// by one above.
func unaccounted(t *testing.T, n ledger.Node, value any, r migrate.Report) {
	t.Helper()
	if slices.ContainsFunc(r.Entries, func(e ledger.Entry) bool { return e.Path == n.Path() && !isNote(e) }) {
		return
	}
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, below := range v {
			unaccounted(t, n.Get(key), below, r)
		}
	case []any:
		for i, below := range v {
			unaccounted(t, n.Item(i), below, r)
		}
	default:
		if v == "" {
			return
		}
		t.Errorf("%s: nothing is said of %s", r.Object, n.Path())
	}
}

// isNote tells a note about a place from what became of the value there: a value that
// changed has a place, or was left out.
func isNote(e ledger.Entry) bool {
	return e.Outcome == ledger.Changed && e.To == "" && !strings.HasPrefix(e.Reason, "left out")
}
