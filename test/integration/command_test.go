package integration

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rollcall.training/internal/lifecycle"
)

// testCommand creates a gang with rollcall run, watches it while it restarts and succeeds, and writes its report.
func testCommand(t *testing.T, m *manager, ns string) {
	program, kubeconfig := buildCommand(t), m.Cluster.Kubeconfig()
	newCommand := func(name string, args ...string) *exec.Cmd {
		args = append([]string{name, "--kubeconfig=" + kubeconfig, "--namespace=" + ns}, args...)
		return exec.CommandContext(t.Context(), program, args...)
	}
	run := newCommand("run", "train", "--framework=pytorch", "--size=3", "--image=train:1", "--", "torchrun", "train.py")
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "Next: rollcall status train") {
		t.Fatalf("rollcall run: %v\n%s", err, out)
	}
	m.runFakeKubelet(t, ns, nil)
	r := &testGang{manager: m, t: t, ns: ns, jobs: []string{"train"}}
	r.waitForPhase(lifecycle.Running, 0)
	watch := newCommand("status", "train", "--watch")
	out, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	text, err := lines.ReadString('\n') // of the first attempt
	if err != nil {
		t.Fatal(err)
	}
	r.failContainer(r.getActivePod("worker-1"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	for _, p := range r.listActivePods() {
		r.succeedPod(p)
	}
	rest, err := io.ReadAll(lines)
	if err := errors.Join(err, watch.Wait()); err != nil {
		t.Errorf("rollcall status --watch: %v", err)
	}
	text += string(rest)
	t.Logf("rollcall status --watch:\n%s", text)
	for _, want := range []string{"train  Running", "train  Succeeded", "\n\n" + ns + "/train  pytorch  Succeeded"} {
		if !strings.Contains(text, want) {
			t.Errorf("rollcall status --watch does not print %q:\n%s", want, text)
		}
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if out, err := newCommand("report", "train", "-o", file).CombinedOutput(); err != nil {
		t.Fatalf("rollcall report: %v\n%s", err, out)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Succeeded", "Then: Restart 1 of 3: rank 1", "restarting ", "exited with code 3", "MASTER_ADDR",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report does not contain %q", want)
		}
	}
}
