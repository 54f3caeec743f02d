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
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/kubeflow"
	"rollcall.training/internal/migrate/source"
)

// FuzzMigrate migrates all documents that can be read. Migrate does not panic, the report of a migrated
// job covers each value of its spec, and the output contains nothing to migrate.
func FuzzMigrate(f *testing.F) {
	err := filepath.WalkDir("testdata", func(path string, e fs.DirEntry, err error) error {
		name, isYAML := strings.CutSuffix(filepath.Base(path), ".yaml")
		if err != nil || e.IsDir() || !isYAML || strings.Contains(name, ".") {
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
		for _, scheduler := range []source.Scheduler{"", source.SchedulerVolcano} {
			checkResult(t, docs, migrate.Migrator{Config: webhookConfig, Scheduler: scheduler}.Migrate(docs))
		}
	})
}

func checkResult(t *testing.T, docs []*manifest.Document, result migrate.Result) {
	t.Helper()
	// The specs of documents with one job of Kubeflow's operators. Readers of other systems ignore
	// some names on purpose, and their own tests check that they cover all fields.
	specs := map[int][]any{}
	for _, d := range docs {
		objects := d.Objects()
		var tree map[string]any
		isJob := len(objects) == 1 && strings.HasPrefix(objects[0].APIVersion, kubeflow.Group+"/")
		if isJob && objects[0].Decode(&tree) == nil {
			specs[d.Number] = append(specs[d.Number], tree["spec"])
		}
	}
	for _, r := range result.Reports {
		if r.Failed() && len(r.Outputs) > 0 {
			t.Errorf("%s became %v, with mistakes %q", r.Object, r.Outputs, r.Errors)
		}
		if r.Failed() || r.Passthrough || len(specs[r.Document]) != 1 {
			continue
		}
		var account source.Recorder
		spec := specs[r.Document][0]
		checkAllReported(t, account.Root(map[string]any{"spec": spec}).Get("spec"), spec, r)
	}
	checkAdmitted(t, docs, result.Documents)
	checkNothingLeft(t, result.Documents)
}

// checkAdmitted checks the new workloads with the engine of the webhook.
func checkAdmitted(t *testing.T, before, after []*manifest.Document) {
	t.Helper()
	given := map[string]bool{}
	for _, d := range before {
		for _, o := range d.Objects() {
			given[o.Kind+"/"+o.Name] = true
		}
	}
	engine := injectors.NewEngine(injectors.Builtin(), webhookConfig)
	for _, d := range after {
		for _, o := range d.Objects() {
			w, _, ok, err := o.DecodeWorkload()
			if !ok || given[o.Kind+"/"+o.Name] || !w.HasFrameworkLabel() {
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

// checkAllReported finds values that the report does not cover, by their paths or by those of their
// parents.
func checkAllReported(t *testing.T, n source.Field, value any, r migrate.Report) {
	t.Helper()
	if slices.ContainsFunc(r.Entries, func(e source.Entry) bool { return e.Path == n.Path() && !isNote(e) }) {
		return
	}
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, below := range v {
			checkAllReported(t, n.Get(key), below, r)
		}
	case []any:
		for i, below := range v {
			checkAllReported(t, n.Item(i), below, r)
		}
	default:
		if v == "" {
			return
		}
		t.Errorf("%s: the report does not cover %s", r.Object, n.Path())
	}
}

// isNote reports whether an entry is a note about a place, and not the outcome of its value. A changed
// value has a new place or was left out.
func isNote(e source.Entry) bool {
	return e.Outcome == source.Changed && e.To == "" && !strings.HasPrefix(e.Reason, "left out")
}
