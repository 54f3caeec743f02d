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
	testCommandOnObject(t, newCommand)
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

// testCommandOnObject explains the Job train, and compares manifests with it through the webhook of the cluster.
func testCommandOnObject(t *testing.T, newCommand func(name string, args ...string) *exec.Cmd) {
	explanation, err := newCommand("explain", "job/train").CombinedOutput()
	if err != nil || !strings.Contains(string(explanation), "variable MASTER_ADDR: train-0.train.") {
		t.Errorf("rollcall explain: %v\n%s", err, explanation)
	}
	if strings.Contains(string(explanation), "since admission") {
		t.Errorf("rollcall explain reports an edited value:\n%s", explanation)
	}
	manifest, err := newCommand("run", "train", "--framework=pytorch", "--size=3", "--image=train:1", "--dry-run",
		"--", "torchrun", "train.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old, new string // what changes in the manifest
		wantCode int
		want     []string // parts of the output; empty for no output
	}{
		"the same manifest": {},
		"a label": {
			old: "labels:", new: "labels:\n    owner: anna", wantCode: 1, want: []string{"\n+    owner: anna\n"},
		},
		"the image": {
			old: "train:1", new: "train:2", wantCode: 1, want: []string{
				"\n-        image: train:1\n+        image: train:2\n", "spec.template: field is immutable; recreate",
			},
		},
		"a new Job": {
			old: "name: train\n", new: "name: other\n", wantCode: 1,
			want: []string{"\n+    rollcall.training/injected: record", "\n+          value: other-0.other."},
		},
		"a workload that is denied": {
			old: "name: train\n", new: "name: other\n  annotations: {rollcall.training/port: x}\n", wantCode: 1,
			want: []string{"error: job/other: metadata.annotations[rollcall.training/port]"},
		},
	} {
		diff := newCommand("diff", "-f", "-", "--cluster")
		diff.Stdin = strings.NewReader(strings.Replace(string(manifest), c.old, c.new, 1))
		out, err := diff.CombinedOutput()
		if code := diff.ProcessState.ExitCode(); code != c.wantCode || len(c.want) == 0 && len(out) > 0 {
			t.Errorf("rollcall diff of %s: exit code %d, want %d: %v\n%s", name, code, c.wantCode, err, out)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("rollcall diff of %s does not print %q:\n%s", name, want, out)
			}
		}
	}
}
