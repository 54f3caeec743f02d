package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// resumedPattern matches the line with which a rank of the example continues.
var resumedPattern = regexp.MustCompile(`(?m)^rank \d, attempt 1: starts at step (\d+)$`)

// TestCheckpointExample kills a rank of the example that saves checkpoints. The second attempt continues from the
// newest checkpoint on all ranks.
func TestCheckpointExample(t *testing.T) {
	s := requireCluster(t)
	ns, state := s.createNamespace(t), t.TempDir()
	if err := os.Chmod(state, 0o777); err != nil { // the ranks run as another user
		t.Fatal(err)
	}
	patches := append([]string{
		`{op: replace, path: /spec/template/spec/volumes/1, ` +
			`value: {name: checkpoints, hostPath: {path: "` + state + `"}}}`,
		`{op: replace, path: /spec/template/spec/terminationGracePeriodSeconds, value: 10}`,
		`{op: add, path: /spec/template/spec/containers/0/env, ` +
			`value: [{name: STEPS, value: "80"}, {name: OMP_NUM_THREADS, value: "1"}]}`,
	}, restrictedPatches...)
	s.applyExample(t, ns, "pytorch/checkpoint", s.trainingImage, patches...)
	wait.For(t, "the first checkpoint", func(context.Context) error {
		_, err := os.Stat(filepath.Join(state, "checkpoint", "step-20.pt"))
		return err
	})
	s.killPod(t, ns, "checkpoint", "worker", 1)
	s.waitForGangStatus(t, ns, "checkpoint", lifecycle.Succeeded, 1)
	logs := s.readLogsByIndex(t, ns, "checkpoint")
	for _, index := range []string{"0", "1"} {
		resumed := resumedPattern.FindStringSubmatch(logs[index])
		if resumed == nil {
			t.Errorf("rank %s did not continue in the attempt 1:\n%s", index, logs[index])
		} else if step, err := strconv.Atoi(resumed[1]); err != nil || step < 20 {
			t.Errorf("rank %s continued at step %s, want 20 or later:\n%s", index, resumed[1], logs[index])
		}
	}
}

// TestBandwidthExample runs the program that measures GPUs on CPUs, with two processes in each of two pods.
func TestBandwidthExample(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	patches := append(replaceGPUs("bandwidth.py"),
		`{op: add, path: /spec/template/spec/containers/0/env/-, value: {name: MEBIBYTES, value: "4"}}`)
	s.applyExample(t, ns, "gpu/base", s.trainingImage, append(patches, restrictedPatches...)...)
	s.waitForTerminalPhase(t, ns, "bandwidth", lifecycle.Succeeded)
	all := ""
	for _, text := range s.readLogsByIndex(t, ns, "bandwidth") {
		all += text
	}
	for rank := range 4 {
		if want := fmt.Sprintf("rank %d of 4: 4 MiB in ", rank); !strings.Contains(all, want) {
			t.Errorf("%q is missing:\n%s", want, all)
		}
	}
}

// replaceGPUs returns the patches that make an example for GPUs run with two processes on CPUs in each of its pods.
func replaceGPUs(program string) []string {
	return []string{
		`{op: replace, path: /spec/template/spec/containers/0/resources/limits, value: {memory: 2Gi}}`,
		// The image has no torchrun in its path.
		`{op: replace, path: /spec/template/spec/containers/0/command, ` +
			`value: [python3, -m, torch.distributed.run, /program/` + program + `]}`,
		`{op: add, path: /metadata/annotations/rollcall.training~1nproc-per-node, value: "2"}`,
		`{op: add, path: /spec/template/spec/containers/0/env/-, value: {name: OMP_NUM_THREADS, value: "1"}}`,
	}
}

// shardPattern matches the line with the part of the model that a rank has.
var shardPattern = regexp.MustCompile(`(?m)^rank \d of 4: (\d+) of 16737 parameters$`)

// TestFSDPExample divides a model among two processes in each of two pods. All ranks end with the same model, and no
// parameter is on two ranks.
func TestFSDPExample(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	text, err := os.ReadFile(filepath.Join("testdata", "fsdp_on_cpu.py"))
	if err != nil {
		t.Fatal(err)
	}
	s.createProgram(t, ns, "sitecustomize.py", string(text)) // each Python process imports it
	patches := append(replaceGPUs("train.py"),
		`{op: add, path: /spec/template/spec/volumes/-, value: {name: cpu, configMap: {name: program}}}`,
		`{op: add, path: /spec/template/spec/containers/0/volumeMounts/-, value: {name: cpu, mountPath: /cpu}}`,
		`{op: add, path: /spec/template/spec/containers/0/env/-, value: {name: PYTHONPATH, value: /cpu}}`)
	s.applyExample(t, ns, "gpu/fsdp", s.trainingImage, append(patches, restrictedPatches...)...)
	s.waitForTerminalPhase(t, ns, "fsdp", lifecycle.Succeeded)
	parameters, models := 0, map[string]bool{}
	logs := s.readLogsByIndex(t, ns, "fsdp")
	for _, text := range logs {
		for _, shard := range shardPattern.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(shard[1]) // the pattern has only digits
			parameters += n
		}
		for _, result := range trainingResultPattern.FindAllStringSubmatch(text, -1) {
			models[result[5]] = true
		}
	}
	if parameters != 16737 || len(models) != 1 {
		t.Errorf("the ranks have %d parameters, want 16737, and the models %v:\n%v", parameters, models, logs)
	}
}
