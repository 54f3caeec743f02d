package migrate_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/origin"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// config is that of a webhook as it is installed.
var config = gang.Config{ClusterDomain: gang.DefaultClusterDomain}

// TestGolden migrates the manifests of testdata: <case>.yaml becomes <case>.out.yaml,
// and <case>.report.yaml says what became of each field. A case in a folder that is
// named after a gang scheduler is migrated for it.
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
		t.Run(filepath.ToSlash(strings.TrimPrefix(base, "testdata"+string(filepath.Separator))), func(t *testing.T) { golden(t, base) })
		return nil
	})
	if err != nil || cases == 0 {
		t.Fatalf("%d cases: %v", cases, err)
	}
}

func golden(t *testing.T, base string) {
	m := migrate.Migrator{Namespace: "default", Config: config}
	for _, s := range []origin.Scheduler{origin.Volcano, origin.Coscheduling} {
		if strings.Contains(base, string(s)) {
			m.Scheduler = s
		}
	}
	result := m.Migrate(read(t, base+".yaml"))
	var out bytes.Buffer
	if err := manifest.Write(&out, manifest.YAML, result.Documents); err != nil {
		t.Fatal(err)
	}
	reports, err := yaml.Marshal(result.Reports)
	if err != nil {
		t.Fatal(err)
	}
	same(t, base+".out.yaml", out.Bytes())
	same(t, base+".report.yaml", bytes.ReplaceAll(reports, []byte(filepath.Dir(base)+string(filepath.Separator)), nil))
	for _, r := range result.Reports {
		for _, w := range r.Warnings {
			t.Errorf("%s: the webhook warns of the result: %s", r.Object, w)
		}
	}
	again(t, result.Documents)
}

// again migrates what came out: there is nothing left to be migrated but what stands within
// other objects.
func again(t *testing.T, docs []*manifest.Document) {
	t.Helper()
	for _, r := range (migrate.Migrator{Config: config}).Migrate(docs).Reports {
		if !r.Through || len(r.Into) > 0 {
			t.Errorf("the result was migrated again: %v", r)
		}
	}
}

func read(t *testing.T, path string) []*manifest.Document {
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

// same compares a text with a golden file.
func same(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with -update, and read it", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale (-have +got); rewrite it with -update, and read it:\n%s", path, diff)
	}
}
