package vet_test

import "rollcall.training/internal/vet"

func torchrunCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		vet.CodeTorchrunFlagConflict: {
			{
				name:     "c in a group of shell options",
				manifest: testJob{container: `command: [bash, -cx, "torchrun --nnodes=4 train.py"]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "c before the last shell option",
				manifest: testJob{container: `command: [bash, -cux, "torchrun --nnodes=4 train.py"]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "shell options with a value",
				manifest: testJob{container: `command: [bash, -ceuo, pipefail, "torchrun --nnodes=4 train.py"]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "shell in a shell",
				manifest: testJob{container: `command: [bash, -c, "bash -c 'torchrun --nnodes=4 train.py'"]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "shell after a wrapper",
				manifest: testJob{container: `command: [timeout, "60", bash, -c, "torchrun --nnodes=4 train.py"]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "timeout",
				manifest: testJob{container: `command: [timeout, -k, "5", "60", torchrun, --nnodes=4, train.py]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "numactl",
				manifest: testJob{container: `command: [numactl, --cpunodebind, "0", torchrun, --nnodes=4, train.py]`}.String(),
				want:     []string{commandPath},
			},
			{
				name: "nsys",
				manifest: testJob{
					container: `command: [nsys, profile, -t, "cuda,nvtx", -o, report, torchrun, --nnodes=4, train.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "conda",
				manifest: testJob{
					container: `command: [conda, run, -n, env, --no-capture-output, torchrun, --nnodes=4, train.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name:     "uv",
				manifest: testJob{container: `command: [uv, run, torchrun, --nnodes=4, train.py]`}.String(),
				want:     []string{commandPath},
			},
			{
				name: "nested wrappers",
				manifest: testJob{
					container: `command: [env, A=b, numactl, -l, timeout, 1h, python, -m, torch.distributed.run, --nnodes=4, a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "script file with an argument c",
				manifest: testJob{
					container: `command: [bash, run.sh, -c, "torchrun --nnodes=4 train.py"]`,
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
			},
			{
				name: "other subcommand of conda",
				manifest: testJob{
					container: `command: [conda, install, torchrun, --nnodes=4]`,
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
			},
			{
				name: "report of a profiler",
				manifest: testJob{
					container: `command: [nsys, stats, torchrun, --nnodes=4]`,
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
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
					container: `command: [accelerate, launch, --num_machines, "2", "--machine_rank=$(ROLLCALL_RANK)", train.py]`,
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
			{name: "no flags", manifest: testJob{container: "command: [torchrun, train.py]"}.String()},
		},
		vet.CodeTorchLaunchDeprecated: {
			{
				name:     "torch.distributed.launch",
				manifest: testJob{container: "command: [python, -m, torch.distributed.launch, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "torch.distributed.run",
				manifest: testJob{container: "command: [python, -m, torch.distributed.run, train.py]"}.String(),
			},
			{
				name: "paddle.distributed.launch",
				manifest: testJob{
					framework: "paddle",
					container: "command: [python, -m, paddle.distributed.launch, train.py]",
				}.String(),
			},
			{
				name:     "argument of another program",
				manifest: testJob{container: "command: [grep, -m, torch.distributed.launch]"}.String(),
			},
		},
		vet.CodeSingleProcessCommand: {
			{
				name: "annotation requires two processes",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   "command: [python3, -u, train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "eight accelerators",
				manifest: testJob{
					container: "command: [python, train.py]",
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "script with exec",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   `command: [sh, -c, "cd /app && exec python train.py"]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "torchrun",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   "command: [torchrun, train.py]",
				}.String(),
			},
			{
				name: "module that may start processes",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   "command: [python, -m, accelerate.commands.launch, train.py]",
				}.String(),
			},
			{
				name: "loop over local ranks",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   `command: [sh, -c, "for i in 0 1; do LOCAL_RANK=$i python train.py & done; wait"]`,
				}.String(),
			},
			{
				name: "process in the background",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   `command: [sh, -c, "python train.py & wait"]`,
				}.String(),
			},
			{
				name: "pipe to tee",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   `command: [sh, -c, "python train.py | tee log"]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "unknown program in a script",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   `command: [sh, -c, "python setup.py && ./train"]`,
				}.String(),
			},
			{
				name: "one accelerator",
				manifest: testJob{
					container: "command: [python, train.py]",
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 1}",
				}.String(),
			},
			{
				name:     "eight CPUs are for threads",
				manifest: testJob{container: "command: [python, train.py]", resources: "limits: {memory: 1Gi, cpu: 8}"}.String(),
			},
			{
				name: "JAX uses all accelerators in one process",
				manifest: testJob{
					framework: "jax",
					container: "command: [python, train.py]",
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
				}.String(),
			},
			{
				name: "command of the image",
				manifest: testJob{
					annotations: "rollcall.training/nproc-per-node: '2'",
					container:   "args: [python, train.py]",
				}.String(),
			},
		},
		vet.CodeElasticWithoutTorchrun: {
			{
				name:     "python in an elastic gang",
				manifest: testJob{annotations: elasticAnnotation, container: "command: [python, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "torchrun in an elastic gang",
				manifest: testJob{annotations: elasticAnnotation, container: "command: [torchrun, train.py]"}.String(),
			},
			{name: "python in a fixed gang", manifest: testJob{container: "command: [python, train.py]"}.String()},
			{
				name:     "launcher of another framework",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [python, train.py]"}),
			},
		},
	}
}
