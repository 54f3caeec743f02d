package cluster

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestAlignedVersions checks that the modules in aligned.work select the same versions of their common libraries.
// Otherwise the go command compiles many packages several times.
func TestAlignedVersions(t *testing.T) {
	const dir = "components"
	data, err := os.ReadFile(filepath.Join(dir, "aligned.work"))
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := modfile.ParseWork("aligned.work", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	selected := map[string]map[string][]string{} // the modules by library and version
	for _, use := range workspace.Use {
		for library, version := range readSelectedVersions(t, filepath.Join(dir, use.Path, "go.mod")) {
			if selected[library] == nil {
				selected[library] = map[string][]string{}
			}
			selected[library][version] = append(selected[library][version], use.Path)
		}
	}
	if len(selected["k8s.io/api"]) == 0 {
		t.Errorf("the modules %v do not use k8s.io/api", workspace.Use)
	}
	for _, library := range slices.Sorted(maps.Keys(selected)) {
		if len(selected[library]) > 1 {
			t.Errorf("%s has several versions: %v; run components/align.sh", library, selected[library])
		}
	}
}

// readSelectedVersions returns the versions of the modules that a go.mod file requires and does not replace with a
// directory. They are the selected versions, because go mod tidy lists all modules of imported packages.
func readSelectedVersions(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(path, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, require := range file.Require {
		versions[require.Mod.Path] = require.Mod.Version
	}
	for _, replace := range file.Replace {
		if _, ok := versions[replace.Old.Path]; ok && replace.New.Version != "" {
			versions[replace.Old.Path] = replace.New.Version
		} else {
			delete(versions, replace.Old.Path)
		}
	}
	return versions
}
