package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
)

// TestMigratedGangs runs one manifest of each system after its migration. The manifests have the
// shape of manifests that people published. Their programs are those of the examples.
func TestMigratedGangs(t *testing.T) {
	for _, c := range []struct {
		name string
		// manifest is a file in testdata/migrated.
		manifest string
		recipe   cluster.Recipe
		// program is a file in examples.
		program string
		// gang is the name of the gang, and job the Job that completes it.
		gang, job string
		// ranks is the number of ranks that print a training result; 0 if the launcher prints want.
		ranks int
		want  []string
		slow  bool
	}{
		{
			name:     "Job that is a gang already",
			manifest: "job.yaml", recipe: cluster.Torch, program: "pytorch/linear/linear_regression.py",
			gang: "ddp-training", job: "ddp-training", ranks: 4,
		},
		{
			name:     "JobSet with a leader and workers",
			manifest: "jobset.yaml", recipe: cluster.Torch, program: "pytorch/linear/linear_regression.py",
			gang: "ddp", job: "ddp-master", ranks: 3,
		},
		{
			name:     "TrainJob with a runtime of its namespace and patches",
			manifest: "trainjob.yaml", recipe: cluster.Torch, program: "pytorch/linear/linear_regression.py",
			gang: "steps", job: "steps", ranks: 4, slow: true,
		},
		{
			name:     "PyTorchJob with elasticPolicy and a fixed number of nodes",
			manifest: "pytorchjob-torchrun.yaml", recipe: cluster.Torch, program: "pytorch/linear/linear_regression.py",
			gang: "fsdp", job: "fsdp", ranks: 4, slow: true,
		},
		{
			name:     "PyTorchJob with elasticPolicy and a rendezvous",
			manifest: "pytorchjob-elastic.yaml", recipe: cluster.Torch, program: "pytorch/linear/linear_regression.py",
			gang: "echo", job: "echo", ranks: 2, slow: true,
		},
		{
			name:     "XGBoostJob with a master and workers",
			manifest: "xgboostjob.yaml", recipe: cluster.GradientBoosting, program: "xgboost/train.py",
			gang: "iris", job: "iris", ranks: 3, slow: true,
		},
		{
			name:     "XGBoostJob that trains with LightGBM",
			manifest: "xgboostjob-lightgbm.yaml", recipe: cluster.GradientBoosting, program: "lightgbm/train.py",
			gang: "ranking", job: "ranking", ranks: 3, slow: true,
		},
		{
			name:     "PaddleJob without a master",
			manifest: "paddlejob.yaml", recipe: cluster.Paddle, program: "paddle/train.py",
			gang: "collective", job: "collective", ranks: 2, slow: true,
		},
		{
			name:     "MPIJob with options of ssh",
			manifest: "mpijob-ssh-port.yaml", recipe: cluster.OpenMPI4, program: "mpi/hosts.py",
			gang: "nccl-test", job: "nccl-test-launcher", slow: true,
			want: []string{"processes 4 sum 6 hosts nccl-test-worker-0 nccl-test-worker-1"},
		},
		{
			name:     "Volcano Job with three plugins",
			manifest: "volcano.yaml", recipe: cluster.OpenMPI4, program: "mpi/hosts.py",
			gang: "lm-mpi-job", job: "lm-mpi-job-launcher", slow: true,
			want: []string{
				"task 0 of 1, workers lm-mpi-job-worker-0.lm-mpi-job,lm-mpi-job-worker-1.lm-mpi-job",
				"processes 2 sum 1 hosts lm-mpi-job-worker-0 lm-mpi-job-worker-1",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.slow {
				skipUnlessFullRun(t)
			}
			s := requireCluster(t)
			ns := s.createNamespace(t)
			s.createExampleProgram(t, ns, c.program)
			s.migrateAndApply(t, ns, s.readMigratedManifests(t, c.manifest, c.recipe)...)
			s.waitForTerminalPhase(t, ns, c.job, lifecycle.Succeeded)
			logs := s.readLogsByRole(t, ns, c.gang)
			text := strings.Join(slices.Collect(maps.Values(logs)), "\n")
			if c.ranks > 0 {
				checkTrainingResults(t, text, c.ranks)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no rank printed %q:\n%s", want, text)
				}
			}
		})
	}
}

// readMigratedManifests returns the documents of a file in testdata/migrated with the image of a
// recipe.
func (s *testCluster) readMigratedManifests(t *testing.T, file string, recipe cluster.Recipe) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "migrated", file))
	if err != nil {
		t.Fatal(err)
	}
	image, err := s.LoadImage(t.Context(), recipe)
	if err != nil {
		t.Fatal(err)
	}
	var manifests []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		manifests = append(manifests, adaptManifest(t, document, image, nil))
	}
	return manifests
}

// TestMigratedEvaluator migrates a TFJob with all replica types. The evaluator runs until it has
// read the checkpoint after the last step.
func TestMigratedEvaluator(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "train.py", parameterServerProgram)
	manifests := s.readMigratedManifests(t, "tfjob-evaluator.yaml", cluster.TensorFlow)
	for i, text := range manifests {
		manifests[i] = strings.ReplaceAll(text, "path: /model\n", "path: "+t.TempDir()+"\n")
	}
	s.migrateAndApply(t, ns, manifests...)
	s.waitForTerminalPhase(t, ns, "estimate-chief", lifecycle.Succeeded)
	// The success of the chief is that of the gang. A worker that joins after the last step waits for a
	// chief that has exited, so it need not print a loss.
	for _, text := range []string{"chief 0 of 1 loss", "ps 0 serves", "evaluator 0 of chief,ps,worker loss"} {
		s.waitForLogText(t, ns, "estimate", text, 1)
	}
	logs := s.readLogsByRole(t, ns, "estimate")
	if !strings.Contains(logs["chief-0"], "variables on /job:ps") {
		t.Errorf("the chief did not train variables of the parameter server:\n%s", logs["chief-0"])
	}
	evaluated := regexp.MustCompile(`loss (\S+)`).FindStringSubmatch(logs["evaluator-0"])
	if evaluated == nil {
		t.Fatalf("the evaluator did not print its loss:\n%s", logs["evaluator-0"])
	}
	t.Log(evaluated[0])
	if !(parseFloat(t, evaluated[1]) < 0.001) { // 9 before the first step
		t.Errorf("the evaluator measured the loss %s", evaluated[1])
	}
}
