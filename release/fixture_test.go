package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// fixture are the files of a small repository with the layout of this one. Its programs compile in a
// second.
var fixture = map[string]string{
	"go.mod": "module rollcall.training\n\ngo 1.26.0\n",
	"internal/buildinfo/buildinfo.go": "package buildinfo\n\nvar version, commit string\n\n" +
		"func String() string { return version + \" \" + commit }\n",
	"cmd/manager/main.go": "package main\n\nimport \"rollcall.training/internal/buildinfo\"\n\n" +
		"func main() { print(buildinfo.String()) }\n",
	"cmd/agent/main.go": "package main\n\nfunc main() { println(\"agent\") }\n",
	"cmd/rollcall/main.go": "package main\n\nimport (\n\t\"os\"\n\n\t\"rollcall.training/internal/buildinfo\"\n)\n\n" +
		"func main() { os.Stdout.WriteString(os.Args[2] + buildinfo.String()) }\n",
	"LICENSE": "the license\n",
	"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\nNothing yet.\n\n" +
		"## [0.2.0] - 2026-11-22\n\n### Added\n\n- Images.\n\n## [0.1.0] - 2026-10-01\n\nThe first release.\n",
	"charts/rollcall/Chart.yaml": "apiVersion: v2\nname: rollcall\ndescription: Gangs\n" +
		"version: 0.1.0\nappVersion: 0.1.0\n",
	"charts/rollcall/values.yaml": "replicas: 2\nimage:\n  # -- Repository of the image.\n  repository: \"\"\n" +
		"  digest: \"\" # sha256\n",
	"charts/rollcall/templates/service.yaml": "kind: Service\n",
}

// newFixture commits the files of the fixture to a new repository and returns its path. The commit is the
// same in every call.
func newFixture(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range fixture {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "--all"},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=Add all"},
	} {
		command := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		command.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-11-22T10:00:00Z", "GIT_COMMITTER_DATE=2026-11-22T10:00:00Z")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// newSource returns the source of a new fixture.
func newSource(t *testing.T, version string) Source {
	t.Helper()
	source, err := ReadSource(t.Context(), newFixture(t), version, false)
	if err != nil {
		t.Fatal(err)
	}
	return source
}
