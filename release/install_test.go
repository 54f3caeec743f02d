package release

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// installation is a release on a server, and the directory into which its script installs.
type installation struct {
	release, dir string
	environment  []string
}

// newInstallation serves a release whose program prints "trained", with the script that installs it.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	for _, program := range []string{"curl", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("install.sh needs %s: %v", program, err)
		}
	}
	source := Source{Version: "v0.2.0", Time: time.Unix(1_000_000_000, 0)}
	release := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(release)))
	t.Cleanup(server.Close)
	program := File{Name: Command.Name, Executable: true, Content: []byte("#!/bin/sh\necho trained\n")}
	archive, err := writeTarGzip([]File{program}, source.Time)
	if err != nil {
		t.Fatal(err)
	}
	script := writeInstaller(t, source, nil, server.URL, "install.sh")
	signer, _, key := newSigner(t)
	files := []File{
		{Name: source.formatFileName(Command, host) + ".tar.gz", Content: archive}, script,
	}
	if err := writeFiles(release, files, signer); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "bin")
	return &installation{
		release: release, dir: dir,
		environment: append(os.Environ(), "ROLLCALL_INSTALL_DIR="+dir, "ROLLCALL_PUBLIC_KEY="+key),
	}
}

// writeInstaller returns the file that installs archives by its name.
func writeInstaller(t *testing.T, s Source, archives []commandArchive, url, name string) File {
	t.Helper()
	files, err := s.writeInstallers(archives, url)
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == name })
	if err != nil || i < 0 {
		t.Fatalf("no file %s: %v", name, err)
	}
	return files[i]
}

// run runs the script and returns its output.
func (i *installation) run(t *testing.T) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", filepath.Join(i.release, "install.sh"))
	command.Env = i.environment
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestInstallScript(t *testing.T) {
	i := newInstallation(t)
	out, err := i.run(t)
	if want := "installed rollcall v0.2.0 in " + i.dir; err != nil || !strings.Contains(out, want) {
		t.Fatalf("output without %q (%v):\n%s", want, err, out)
	}
	printed, err := exec.CommandContext(t.Context(), filepath.Join(i.dir, Command.Name)).Output()
	if diff := cmp.Diff("trained\n", string(printed)); err != nil || diff != "" {
		t.Errorf("the installed program (%v) printed (-want, +got):\n%s", err, diff)
	}
	if out, err := i.run(t); err != nil {
		t.Errorf("a second installation: %v\n%s", err, out)
	}
	i.requireFiles(t, Command.Name)
}

// requireFiles checks which files the directory of the installation contains.
func (i *installation) requireFiles(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	entries, err := os.ReadDir(i.dir)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files in the directory (%v) (-want, +got):\n%s", err, diff)
	}
}

func TestInstallScriptRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, i *installation)
		want   string
	}{
		"an archive with other content": {
			change: func(t *testing.T, i *installation) { i.write(t, i.archive(t), "other") },
			want:   "but checksums.txt has",
		},
		"checksums that somebody replaced": {
			change: func(t *testing.T, i *installation) { i.write(t, "checksums.txt", "0  "+i.archive(t)) },
			want:   "the signature of checksums.txt does not match the key",
		},
		"the key of somebody else": {
			change: func(t *testing.T, i *installation) {
				_, _, key := newSigner(t)
				i.environment = append(i.environment, "ROLLCALL_PUBLIC_KEY="+key)
			},
			want: "the signature of checksums.txt does not match the key",
		},
		"a release without a signature": {
			change: func(t *testing.T, i *installation) { i.remove(t, "checksums.txt.sigstore.json") },
			want:   "checksums.txt.sigstore.json failed",
		},
		"a release without the archive": {
			change: func(t *testing.T, i *installation) { i.remove(t, i.archive(t)) },
			want:   ".tar.gz failed",
		},
		"a machine without an archive": {
			change: func(t *testing.T, i *installation) { i.replaceProgram(t, "uname", "echo mips") },
			want:   "this script does not support mips",
		},
		"a directory below a file": {
			change: func(t *testing.T, i *installation) {
				i.environment = append(i.environment, "ROLLCALL_INSTALL_DIR="+filepath.Join(i.release, "install.sh", "bin"))
			},
			want: "is not writable; set ROLLCALL_INSTALL_DIR",
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstallation(t)
			c.change(t, i)
			out, err := i.run(t)
			if err == nil || !strings.Contains(out, c.want) || !strings.Contains(out, "nothing was installed") {
				t.Errorf("output without %q (%v):\n%s", c.want, err, out)
			}
			i.requireFiles(t)
		})
	}
}

// archive returns the name of the only archive of the release.
func (i *installation) archive(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(i.release, "*.tar.gz"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("archives %v (%v)", paths, err)
	}
	return filepath.Base(paths[0])
}

func (i *installation) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(i.release, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (i *installation) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(i.release, name)); err != nil {
		t.Fatal(err)
	}
}

// replaceProgram puts a program of the name before all others in PATH.
func (i *installation) replaceProgram(t *testing.T, name, command string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+command+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	i.environment = append(i.environment, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestFormula checks that the formula has each archive for macOS and Linux with its digest, and no other.
func TestFormula(t *testing.T) {
	var archives []commandArchive
	for _, p := range []Platform{
		{OS: "darwin", Arch: "arm64"}, {OS: "darwin", Arch: "amd64"}, {OS: "linux", Arch: "amd64"},
		{OS: "windows", Arch: "amd64"},
	} {
		archives = append(archives, commandArchive{platform: p, fileName: p.OS + "_" + p.Arch, content: []byte(p.String())})
	}
	formula := writeInstaller(t, Source{Version: "v0.2.0"}, archives, "https://example.com", "rollcall.rb")
	var got []string
	for line := range strings.Lines(string(formula.Content)) {
		for _, prefix := range []string{"version ", "on_", "url ", "sha256 "} {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, prefix) {
				got = append(got, line)
			}
		}
	}
	sum := func(platform string) string { return `sha256 "` + hashSHA256([]byte(platform)) + `"` }
	want := []string{
		`version "0.2.0"`,
		"on_macos do", "on_arm do", `url "https://example.com/darwin_arm64"`, sum("darwin/arm64"),
		"on_intel do", `url "https://example.com/darwin_amd64"`, sum("darwin/amd64"),
		"on_linux do", "on_intel do", `url "https://example.com/linux_amd64"`, sum("linux/amd64"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines of the formula (-want, +got):\n%s", diff)
	}
}
