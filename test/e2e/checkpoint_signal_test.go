package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// savingProgram saves at SIGUSR1, and exits with code 0. It does not handle SIGTERM.
const savingProgram = `
import os, signal, sys, time
if os.environ["ROLLCALL_ATTEMPT"] != "0":
    sys.exit()
file, signals = "/state/" + os.environ["RANK"], []
signal.signal(signal.SIGUSR1, lambda *_: signals.append(time.time()))
open(file + ".started", "w").close()
while not signals:
    time.sleep(0.1)
time.sleep(2)
open(file + ".saved", "w").close()
`

// hookPattern matches the parts of a pod with a hook in docs/tasks/save-checkpoints.md.
var hookPattern = regexp.MustCompile("(?s)```yaml\n(terminationGracePeriodSeconds:.*?)```")

// TestCheckpointSignal deletes a pod of gangs with the hooks in docs/tasks/save-checkpoints.md. The processes of all
// ranks save at their signal.
func TestCheckpointSignal(t *testing.T) {
	s := requireCluster(t)
	page, err := os.ReadFile(filepath.Join(repositoryRoot, "docs", "tasks", "save-checkpoints.md"))
	if err != nil {
		t.Fatal(err)
	}
	hooks := hookPattern.FindAllSubmatch(page, -1)
	if len(hooks) != 2 {
		t.Fatalf("the page has %d hooks, want one for process 1 and one for torchrun", len(hooks))
	}
	for i, c := range []struct {
		name      string
		command   []string
		processes int
	}{
		{name: "process 1", command: []string{"python3", "train.py"}, processes: 1},
		{name: "the processes of torchrun", command: []string{"torchrun", "train.py"}, processes: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var hook corev1.PodSpec
			if err := yaml.UnmarshalStrict(hooks[i][1], &hook); err != nil {
				t.Fatal(err)
			}
			ns, state := s.createNamespace(t), t.TempDir()
			s.createProgram(t, ns, "train.py", savingProgram)
			spec := s.newPodSpec(c.command...)
			mountDirectory(t, &spec, "state", state)
			spec.TerminationGracePeriodSeconds = hook.TerminationGracePeriodSeconds
			spec.Containers[0].Lifecycle = hook.Containers[0].Lifecycle
			s.createJob(t, ns, "train", 2, map[string]string{
				gang.AnnotationNprocPerNode: strconv.Itoa(c.processes),
			}, spec)
			waitForFiles(t, filepath.Join(state, "*.started"), 2*c.processes)
			pod := s.findPodName(t, ns, "train", "1")
			if err := s.client.CoreV1().Pods(ns).Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			waitForFiles(t, filepath.Join(state, "*.saved"), 2*c.processes)
			s.waitForGangStatus(t, ns, "train", lifecycle.Succeeded, 1)
		})
	}
}

// waitForFiles waits until a number of files match a pattern.
func waitForFiles(t *testing.T, pattern string, count int) {
	t.Helper()
	wait.For(t, fmt.Sprintf("%d files %s", count, filepath.Base(pattern)), func(context.Context) error {
		files, err := filepath.Glob(pattern)
		if err == nil && len(files) != count {
			err = fmt.Errorf("%d files: %v", len(files), files)
		}
		return err
	})
}
