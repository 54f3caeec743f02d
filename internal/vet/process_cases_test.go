package vet_test

import "rollcall.training/internal/vet"

func processCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		"SingleProcessCommand": {
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
				name: "uv runs a script",
				manifest: testJob{
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
					container: `command: [uv, run, train.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "path of torchrun",
				manifest: testJob{
					resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}",
					container: `command: [bash, -c, "python $(which torchrun) train.py"]`,
				}.String(),
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
		"ElasticWithoutTorchrun": {
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
