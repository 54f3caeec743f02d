package seeds_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/test/seeds"
)

// TestMigrateSeeds migrates every manifest of every document. Each must become a gang that the
// webhook accepts without warnings.
func TestMigrateSeeds(t *testing.T) {
	all, err := seeds.Read()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the documents do not exist next to the repository: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{ClusterDomain: gang.DefaultClusterDomain})
	jobs := 0
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			docs, err := manifest.Read(s.Name, strings.NewReader(strings.Join(s.Manifests(), "\n---\n")))
			if err != nil {
				t.Fatal(err)
			}
			result := migrate.Migrator{Namespace: "default"}.Migrate(docs)
			for _, r := range result.Reports {
				t.Logf("%s: %v", r.Object, r.Outputs)
				if r.Failed() || len(r.Warnings) > 0 {
					t.Errorf("%s: errors %q, warnings %q", r.Object, r.Errors, r.Warnings)
				}
			}
			want := 0
			for kind, n := range s.CountKinds() {
				if strings.HasSuffix(kind, "Job") {
					want += n
				}
			}
			gangs := map[string]bool{}
			for _, d := range result.Documents {
				injections, err := d.Inject("default", engine.Inject)
				if err != nil {
					t.Error(err)
				}
				for _, in := range injections {
					if in.Err != nil || len(in.Warnings) > 0 {
						t.Errorf("%s: %v, warnings %q", in.Object, in.Err, in.Warnings)
					}
					gangs[in.Namespace+"/"+in.Gang.Name] = true
				}
			}
			if len(gangs) != want {
				t.Errorf("%d gangs of %d jobs: %v", len(gangs), want, gangs)
			}
			jobs += want
		})
	}
	if len(all) > 0 && jobs == 0 {
		t.Error("the documents contain no jobs")
	}
}
