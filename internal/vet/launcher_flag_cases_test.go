package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

// machineFlags are the flags that accelerate needs with a number of machines.
const machineFlags = `"--machine_rank=$(ROLLCALL_RANK)", "--main_process_ip=$(MASTER_ADDR)", `

func launcherFlagCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		vet.CodeLauncherFlagConflict: {
			{
				name: "nested wrappers",
				manifest: testJob{
					container: `command: [env, A=b, numactl, -l, timeout, 1h, python, -m, torch.distributed.run, --nnodes=4, a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "workload without a name",
				manifest: strings.Replace(testJob{
					container: `command: [torchrun, --nnodes=3, --node-rank=0, a.py]`,
				}.String(), "name: train", "generateName: train-", 1),
				want: []string{commandPath, commandPath},
			},
			{
				name: "as many processes as accelerators",
				manifest: testJob{
					container: `command: [torchrun, --nproc-per-node=8, train.py]`,
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
			},
			{
				name: "accelerate with a configuration file",
				manifest: testJob{
					container: `command: [accelerate, launch, --config_file, a.yaml, train.py, --num_machines=4]`,
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
			},
			{
				name: "accelerate with flags that match the gang",
				manifest: testJob{
					container: `command: [accelerate, launch, --num_machines, "2", ` + machineFlags + `train.py]`,
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
			},
			{
				name: "other command of accelerate",
				manifest: testJob{
					container: `command: [accelerate, test, --num_machines=4]`,
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
			},
			{
				name: "more processes than accelerators",
				manifest: testJob{
					container: "command: [torchrun, --nproc-per-node=16, train.py]",
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "fixed number of machines in an elastic gang",
				manifest: testJob{
					annotations: elasticAnnotation,
					container:   "command: [accelerate, launch, --num_machines=2, --rdzv_backend=c10d, --machine_rank=0, a.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "flags of accelerate",
				manifest: testJob{
					container: "command: [accelerate, launch, --multi_gpu, --num_machines=4, --machine_rank, '0', train.py]",
				}.String(),
				want: []string{commandPath, commandPath},
			},
			{
				name: "accelerate as a module",
				manifest: testJob{
					container: "command: [python, -m, accelerate.commands.launch, --machine_rank=1, train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name:     "different number of nodes",
				manifest: testJob{container: "command: [torchrun, --nnodes=4, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "same node rank in all pods",
				manifest: testJob{container: "command: [torchrun, --nnodes, '2', --node_rank, '0', train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name: "rank of another pod in a role of one pod",
				manifest: testJob{
					name:        "train-worker",
					ranks:       1,
					labels:      "rollcall.training/role: worker",
					annotations: "rollcall.training/roles: 'master=1,worker=1'",
					container:   "command: [torchrun, --nnodes=2, --node_rank=0, train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "same node rank in all pods of a role",
				manifest: testJob{
					name:        "train-worker",
					labels:      "rollcall.training/role: worker",
					annotations: "rollcall.training/roles: 'master=1,worker=2'",
					container:   "command: [torchrun, --nnodes=3, --node_rank=1, train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "rank of the only pod of a role",
				manifest: testJob{
					name:        "train-master",
					ranks:       1,
					labels:      "rollcall.training/role: master",
					annotations: "rollcall.training/roles: 'master=1,worker=2'",
					container:   "command: [torchrun, --nnodes=3, --node_rank=0, train.py]",
				}.String(),
			},
			{
				name:     "standalone in a gang of two pods",
				manifest: testJob{container: "command: [python3, -u, -m, torch.distributed.run, --standalone, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name: "different number of processes than the annotation",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   "command: [torchrun, --nproc-per-node=8, train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "flag in a script with line continuations",
				manifest: testJob{
					container: `command: [bash, -c, "pip install a\nexec torchrun \\\n  --nnodes=4 \\\n  train.py"]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name:     "fixed number of nodes in an elastic gang",
				manifest: testJob{annotations: elasticAnnotation, container: "command: [torchrun, --nnodes=2, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name: "range that includes the number of pods",
				manifest: testJob{
					container: "command: [torchrun, '--nnodes=1:4', --rdzv-backend=c10d, --node-rank=0, train.py]",
				}.String(),
			},
			{
				name:     "flags that match the gang",
				manifest: testJob{container: "command: [torchrun, --nnodes=2, --nproc_per_node=8, train.py]"}.String(),
			},
			{
				name:     "flags with injected variables",
				manifest: testJob{container: "command: [torchrun, --nnodes=$(PET_NNODES), --node_rank=$(RANK), train.py]"}.String(),
			},
			{
				name:     "flag of the training program",
				manifest: testJob{container: "command: [torchrun, train.py, --nnodes=4]"}.String(),
			},
			{name: "flag of another launcher", manifest: testJob{container: "command: [launch, --nnodes=4]"}.String()},
			{
				name: "standalone in a gang of one pod",
				manifest: testJob{
					ranks:     1,
					container: "command: [torchrun, --standalone, --nnodes=1, --node_rank=0, train.py]",
				}.String(),
			},
			{
				name:     "other framework",
				manifest: testJob{framework: "jax", container: "command: [torchrun, --nnodes=4, train.py]"}.String(),
			},
			{
				name:     "flag in a function",
				manifest: testJob{container: `command: [bash, -c, "f() { torchrun --nnodes=4 a.py; }; torchrun b.py"]`}.String(),
			},
			{
				name: "accelerate with too many machines",
				manifest: testJob{
					container: `command: [accelerate, launch, --num_machines=4, ` + machineFlags + `a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "accelerate without a rank and an address",
				manifest: testJob{
					container: `command: [accelerate, launch, --num_machines=2, --num_processes=2, a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "accelerate with one machine uses the injected variables",
				manifest: testJob{
					container: `command: [accelerate, launch, --num_machines=1, a.py]`,
				}.String(),
			},
			{
				name: "accelerate without flags",
				manifest: testJob{
					container: `command: [accelerate, launch, a.py]`,
				}.String(),
			},
			{
				name: "accelerate with flags in a variable",
				manifest: testJob{
					container: `command: [bash, -c, "accelerate launch --num_machines=2 $FLAGS a.py"]`,
				}.String(),
			},
			{
				name: "accelerate with the processes of all pods in each pod",
				manifest: testJob{
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
					container: `command: [accelerate, launch, --num_processes=16, a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "accelerate with the processes of all pods",
				manifest: testJob{
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
					container: `command: [accelerate, launch, --num_machines=2, --num_processes=16, ` + machineFlags + `a.py]`,
				}.String(),
			},
			{
				name: "accelerate with fewer processes than machines",
				manifest: testJob{
					container: `command: [accelerate, launch, --num_machines=2, --num_processes=1, ` + machineFlags + `a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "accelerate starts DeepSpeed over SSH",
				manifest: testJob{
					container: `command: [accelerate, launch, --use_deepspeed, --num_machines=2, ` + machineFlags + `a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "accelerate starts DeepSpeed without SSH",
				manifest: testJob{
					container: `command: [accelerate, launch, --use_deepspeed, --num_machines=2, ` + machineFlags +
						`--deepspeed_multinode_launcher=standard, a.py]`,
				}.String(),
			},
			{
				name: "accelerate with a fixed rank in an elastic gang",
				manifest: testJob{
					annotations: elasticAnnotation,
					container:   "command: [accelerate, launch, --num_machines=2, --machine_rank=0, a.py]",
				}.String(),
				want: []string{commandPath, commandPath},
			},
			{
				name: "accelerate in an elastic gang",
				manifest: testJob{
					annotations: elasticAnnotation,
					container:   `command: [accelerate, launch, a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "deepspeed with a fixed rank",
				manifest: testJob{
					container: `command: [deepspeed, --no_ssh, --hostfile=/hosts, --node_rank=0, a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "Lightning with a different number of nodes",
				manifest: testJob{
					container: `command: [torchrun, train.py, fit, --trainer.num_nodes, "4"]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "Hydra with a different number of nodes",
				manifest: testJob{
					container: `command: [python, train.py, ++trainer.num_nodes=4]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "Lightning with the number of pods",
				manifest: testJob{
					container: `command: [python, train.py, trainer.num_nodes=2, model.num_nodes=4]`,
				}.String(),
			},
			{
				name: "Lightning with a variable",
				manifest: testJob{
					container: `command: [python, train.py, trainer.num_nodes=$(PET_NNODES)]`,
				}.String(),
			},
			{
				name: "uv runs torchrun",
				manifest: testJob{
					container: `command: [uv, run, --with, torch, torchrun, --nnodes=4, a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{name: "no flags", manifest: testJob{container: "command: [torchrun, train.py]"}.String()},
		},
	}
}
