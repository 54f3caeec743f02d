package e2e

import (
	"testing"

	"rollcall.training/test/cluster"
)

// TestAccelerate runs accelerate launch without flags for machines, with one process in each pod.
func TestAccelerate(t *testing.T) {
	runTrainingExample(t, "accelerate", "train-accelerate", cluster.TorchLaunchers, 2)
}

// TestAccelerateProcesses starts two processes in each pod. With several GPUs in a pod, accelerate
// does the same without these flags. It then starts torchrun, which reads the injected variables.
func TestAccelerateProcesses(t *testing.T) {
	skipUnlessFullRun(t)
	runTrainingExample(t, "accelerate", "train-accelerate", cluster.TorchLaunchers, 4,
		formatCommandPatch("accelerate", "launch", "--multi_gpu", "--num_processes=2", "/program/train.py"),
		`{op: add, path: /spec/template/spec/containers/0/env, value: [{name: ACCELERATE_USE_CPU, value: "true"}]}`)
}

// TestAccelerateMachines passes the flags for machines that existing commands contain.
func TestAccelerateMachines(t *testing.T) {
	skipUnlessFullRun(t)
	runTrainingExample(t, "accelerate", "train-accelerate", cluster.TorchLaunchers, 4,
		formatCommandPatch("accelerate", "launch", "--multi_gpu", "--num_machines=2", "--num_processes=4",
			"--machine_rank=$(ROLLCALL_RANK)", "--main_process_ip=$(MASTER_ADDR)",
			"--main_process_port=$(MASTER_PORT)", "/program/train.py"),
		`{op: add, path: /spec/template/spec/containers/0/env, value: [{name: ACCELERATE_USE_CPU, value: "true"}]}`)
}

// TestLightning runs a program whose Trainer starts two processes in each pod. Lightning reads
// NODE_RANK, and overrides WORLD_SIZE.
func TestLightning(t *testing.T) {
	skipUnlessFullRun(t)
	runTrainingExample(t, "lightning", "train-lightning", cluster.TorchLaunchers, 4)
}

// TestLightningWithTorchrun starts the processes of Lightning with torchrun.
func TestLightningWithTorchrun(t *testing.T) {
	skipUnlessFullRun(t)
	runTrainingExample(t, "lightning", "train-lightning", cluster.TorchLaunchers, 4,
		formatCommandPatch("python3", "-m", "torch.distributed.run", "--nproc-per-node=2", "/program/train.py"))
}
