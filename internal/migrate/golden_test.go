package migrate_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden files")

// webhookConfig is the configuration of an installed webhook.
var webhookConfig = gang.Config{ClusterDomain: gang.DefaultClusterDomain}

// TestGolden migrates the manifests of testdata: <case>.yaml becomes <case>.out.yaml, and
// <case>.report.yaml contains the outcome of each field. Cases in a folder whose name contains a gang
// scheduler are migrated for that scheduler.
func TestGolden(t *testing.T) {
	cases := 0
	err := filepath.WalkDir("testdata", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == "operators" {
			return fs.SkipDir // recordings of the original operators, see testdata/operators/README.md
		}
		base, isCase := strings.CutSuffix(path, ".yaml")
		if err != nil || e.IsDir() || !isCase || strings.Contains(filepath.Base(base), ".") {
			return err
		}
		cases++
		name := filepath.ToSlash(strings.TrimPrefix(base, "testdata"+string(filepath.Separator)))
		t.Run(name, func(t *testing.T) { checkGolden(t, base) })
		return nil
	})
	if err != nil || cases == 0 {
		t.Fatalf("%d cases: %v", cases, err)
	}
}

func checkGolden(t *testing.T, base string) {
	m := migrate.Migrator{Namespace: "default", Config: webhookConfig}
	for _, s := range []source.Scheduler{source.SchedulerVolcano, source.SchedulerCoscheduling} {
		if strings.Contains(base, string(s)) {
			m.Scheduler = s
		}
	}
	result := m.Migrate(readDocuments(t, base+".yaml"))
	var out bytes.Buffer
	if err := manifest.Write(&out, manifest.YAML, result.Documents); err != nil {
		t.Fatal(err)
	}
	reports, err := yaml.Marshal(result.Reports)
	if err != nil {
		t.Fatal(err)
	}
	compareGolden(t, base+".out.yaml", out.Bytes())
	folder := []byte(filepath.Dir(base) + string(filepath.Separator))
	compareGolden(t, base+".report.yaml", bytes.ReplaceAll(reports, folder, nil))
	for _, r := range result.Reports {
		for _, w := range r.Warnings {
			t.Errorf("%s: the webhook returns a warning for the result: %s", r.Object, w)
		}
	}
	checkNothingLeft(t, result.Documents)
}

// checkNothingLeft migrates the output and checks that it contains nothing to migrate, except for jobs
// within other objects. Jobs without the label are not checked: that of a TrainJob without a framework
// can look like a gang.
func checkNothingLeft(t *testing.T, docs []*manifest.Document) {
	t.Helper()
	docs = slices.DeleteFunc(slices.Clone(docs), func(d *manifest.Document) bool {
		return slices.ContainsFunc(d.Objects(), func(o manifest.Object) bool {
			return o.Kind == "Job" && !o.HasFrameworkLabel()
		})
	})
	for _, r := range (migrate.Migrator{Config: webhookConfig}).Migrate(docs).Reports {
		if !r.Passthrough || len(r.Outputs) > 0 {
			t.Errorf("migrate converted its own output: %v", r)
		}
	}
}

func readDocuments(t *testing.T, path string) []*manifest.Document {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := manifest.Read(path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// compareGolden compares a text with a golden file.
func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *updateGolden {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; create it with -update, and read it", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale (-have +got); rewrite it with -update, and read it:\n%s", path, diff)
	}
}
