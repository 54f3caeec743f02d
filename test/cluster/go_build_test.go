package cluster

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBuildEstimate(t *testing.T) {
	const size = 10_000_000
	e := newBuildEstimate()
	e.addCompiled("early") // before the packages are known
	if got := e.describe(); got != "" {
		t.Errorf("without packages, the estimate is %q", got)
	}
	e.start([]goPackage{
		{path: "early", size: size},
		{path: "cached", size: 100 * size, isCompiled: true},
		{path: "late", size: size},
		{path: "last", size: size},
	})
	if got := e.describe(); !strings.HasPrefix(got, "1 of 3 packages, ") {
		t.Errorf("the cached package must not count: %q", got)
	}
	e.addCompiled("late")
	fast, slow := e.remaining(time.Minute), e.remaining(10*time.Minute)
	if ratio := slow.Seconds() / fast.Seconds(); ratio < 5 || ratio > 10 {
		t.Errorf("on a machine with a tenth of the speed, the remaining time is %s instead of %s", slow, fast)
	}
	e.addCompiled("last")
	e.addCompiled("last")
	if left := e.remaining(time.Minute); left <= 0 || left >= fast {
		t.Errorf("while the program is linked, the remaining time is %s", left)
	}
}

func TestBuildOutput(t *testing.T) {
	e := newBuildEstimate()
	o := &buildOutput{estimate: e}
	const messages = "go: downloading k8s.io/x v1\n# k8s.io/b\nb.go:1:2: undefined: X\n"
	for _, text := range []string{"k8s.io/a", "pi\n" + messages + "fmt\n"} {
		if _, err := o.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]bool{"k8s.io/api": true, "fmt": true}, e.compiled); diff != "" {
		t.Errorf("compiled packages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(messages, o.messages.String()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestListPackages(t *testing.T) {
	const program = "package main\n\nimport \"rollcall.test/program/library\"\n\nfunc main() { library.F() }\n"
	dir := writeModule(t, program)
	build := goBuild{dir: dir, pkg: "."}
	packages, err := build.listPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, p := range packages {
		if strings.HasPrefix(p.path, "rollcall.test/") {
			found[p.path] = p.size
		}
	}
	want := map[string]int64{
		"rollcall.test/program":         int64(len(program)),
		"rollcall.test/program/library": int64(len(librarySource)),
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("packages with their sizes (-want +got):\n%s", diff)
	}
}

func TestFailedBuildReportsTheCompilerError(t *testing.T) {
	dir := writeModule(t, "package main\n\nfunc main() { undefinedName() }\n")
	path := filepath.Join(t.TempDir(), "program")
	err := goBuild{dir: dir, pkg: ".", path: path}.run(context.Background(), newProgress(t.Output()), "building")
	if err == nil || !strings.Contains(err.Error(), "undefined: undefinedName") {
		t.Errorf("the error of a failed build is: %v", err)
	}
	if isFile(path) {
		t.Error("a failed build wrote the program")
	}
}

const librarySource = "package library\n\nfunc F() {}\n"

// writeModule writes a module with a program and a package, and returns its directory.
func writeModule(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module rollcall.test/program\n\ngo 1.26\n", "main.go": program,
		"library/library.go": librarySource,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestProgressOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	if same := newProgress(p); same != p {
		t.Error("a progress that writes to a progress must be the same")
	}
	p.columns = func() int { return 20 }
	p.running = []*runningStep{
		{what: "first", begin: time.Now().Add(-time.Minute), describe: func() string { return "half" }},
		{what: "second", begin: time.Now().Add(-time.Minute)},
		{what: "new", begin: time.Now()},
	}
	p.draw()
	p.printLine("done")
	p.printLine("next")
	const want = "\r\x1b[Kfirst ... 60 s, hal\r\x1b[Kdone\nnext\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
