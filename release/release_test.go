package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sigsyaml "sigs.k8s.io/yaml"
)

// host is the platform of this machine.
var host = Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}

func writeRelease(t *testing.T, source Source) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dist")
	_, err := source.WriteRelease(t.Context(), Options{
		Repository:       "registry.example.com/rollcall/manager",
		ImagePlatforms:   []Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}},
		CommandPlatforms: []Platform{host, {OS: "windows", Arch: "amd64"}},
		DownloadURL:      "https://example.com/v0.2.0",
		Dir:              dir,
		Progress:         t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTwoCheckoutsGiveTheSameRelease(t *testing.T) {
	first := readTree(t, writeRelease(t, newSource(t, "v0.2.0")))
	second := readTree(t, writeRelease(t, newSource(t, "v0.2.0")))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two checkouts of the same commit differ (-first +second):\n%s", diff)
	}
	for _, name := range []string{
		"checksums.txt", "images/manager/index.json", "release-notes.md", "rollcall-0.2.0.tgz", "rollcall.yaml",
		"rollcall.rb", "install.sh",
		"manager_0.2.0_linux_arm64.spdx.json", "rollcall_0.2.0_windows_amd64.zip",
		"rollcall_0.2.0_" + host.OS + "_" + host.Arch + ".tar.gz",
	} {
		if _, ok := first[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestFilesOfARelease(t *testing.T) {
	source := newSource(t, "v0.2.0")
	dir := writeRelease(t, source)
	t.Run("checksums are right", func(t *testing.T) {
		command := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "checksums.txt")
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("sha256sum --check: %v\n%s", err, out)
		}
	})
	t.Run("the archive contains the program with version and commit, licenses and completions", func(t *testing.T) {
		files := readTarGzip(t, filepath.Join(dir, source.formatFileName(Command, host)+".tar.gz"))
		program := filepath.Join(t.TempDir(), "rollcall")
		if err := os.WriteFile(program, files["rollcall"], 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), program, "completion", "bash").Output()
		if err != nil {
			t.Fatal(err)
		}
		want := "bashv0.2.0 " + source.Commit
		if diff := cmp.Diff(want, string(out)); diff != "" {
			t.Errorf("output of the program (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, string(files["completions/rollcall.bash"])); diff != "" {
			t.Errorf("completion (-want +got):\n%s", diff)
		}
		if string(files["LICENSE"]) != fixture["LICENSE"] {
			t.Errorf("LICENSE is %q", files["LICENSE"])
		}
	})
	t.Run("the chart names the image by digest and keeps comments", func(t *testing.T) {
		files := readTarGzip(t, filepath.Join(dir, "rollcall-0.2.0.tgz"))
		values := string(files["rollcall/values.yaml"])
		for _, text := range []string{
			"# -- Repository of the image.", `repository: "registry.example.com/rollcall/manager"`, `digest: "sha256:`,
		} {
			if !strings.Contains(values, text) {
				t.Errorf("values.yaml does not contain %q:\n%s", text, values)
			}
		}
		if chart := string(files["rollcall/Chart.yaml"]); !strings.Contains(chart, "version: 0.2.0\nappVersion: v0.2.0\n") {
			t.Errorf("Chart.yaml is\n%s", chart)
		}
	})
	t.Run("the manifest for krew has the digest of each archive", func(t *testing.T) {
		content, err := os.ReadFile(filepath.Join(dir, "rollcall.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct {
			Spec struct {
				Platforms []struct{ URI, Sha256 string }
			}
		}
		if err := sigsyaml.Unmarshal(content, &manifest); err != nil {
			t.Fatal(err)
		}
		if len(manifest.Spec.Platforms) != 2 {
			t.Fatalf("the manifest has %d platforms, want 2", len(manifest.Spec.Platforms))
		}
		for _, platform := range manifest.Spec.Platforms {
			archive, err := os.ReadFile(filepath.Join(dir, strings.TrimPrefix(platform.URI, "https://example.com/v0.2.0/")))
			if err != nil {
				t.Fatal(err)
			}
			if got := hashSHA256(archive); got != platform.Sha256 {
				t.Errorf("the digest of %s is %s, want %s", platform.URI, platform.Sha256, got)
			}
		}
	})
}

func TestReadSource(t *testing.T) {
	for name, file := range map[string]string{
		"a file is changed":       "LICENSE",
		"a file is not committed": filepath.Join("charts", "rollcall", "values.local.yaml"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := newFixture(t)
			if err := os.WriteFile(filepath.Join(dir, file), []byte("changed"), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadSource(t.Context(), dir, "v0.2.0", false); !errors.Is(err, ErrUncommittedChanges) {
				t.Errorf("the error is %v, want %v", err, ErrUncommittedChanges)
			}
			source, err := ReadSource(t.Context(), dir, "v0.2.0", true)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(source.Commit, "-dirty") {
				t.Errorf("the commit is %s, want the suffix -dirty", source.Commit)
			}
		})
	}
}

func TestExtractNotes(t *testing.T) {
	cases := []struct {
		name, version, want string
	}{
		{"a section of the version", "v0.1.0", "# Rollcall v0.1.0\n\nThe first release.\n"},
		{"no section of the version", "v0.3.0", "# Rollcall v0.3.0\n\nNothing yet.\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := ExtractNotes(fixture["CHANGELOG.md"], c.version)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := ExtractNotes("# Changelog\n", "v0.1.0"); err == nil {
		t.Error("a changelog without sections has notes, want an error")
	}
}

func TestParsePlatforms(t *testing.T) {
	for _, text := range []string{"", "linux", "linux/", "linux/amd64/v3", "linux/amd64,linux/amd64"} {
		if got, err := ParsePlatforms(text); err == nil {
			t.Errorf("%q is parsed to %v, want an error", text, got)
		}
	}
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = hashSHA256(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readTarGzip(t *testing.T, path string) map[string][]byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(uncompressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
