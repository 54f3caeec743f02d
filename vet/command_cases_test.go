package vet_test

import (
	"strings"

	"rollcall.training/vet"
)

func commandCases() map[vet.Code][]sample {
	const elastic = "rollcall.training/elastic: '2:4'"
	return map[vet.Code][]sample{
		vet.CodeLoopbackRendezvous: {
			{reason: "exported in a script", text: job{container: `command: [bash, -ec, "export MASTER_ADDR=localhost\ntorchrun train.py"]`}.String(), want: []string{command}},
			{reason: "before a command", text: job{container: `command: [bash, -c, "MASTER_ADDR=127.0.0.1 python train.py"]`}.String(), want: []string{command}},
			{reason: "a flag", text: job{container: "command: [torchrun, --master_addr, localhost, train.py]"}.String(), want: []string{command}},
			{reason: "an endpoint", text: job{annotations: elastic, container: "command: [torchrun, '--rdzv-endpoint=localhost:29400', train.py]"}.String(), want: []string{command}},
			{reason: "a variable that the webhook lets pass", text: job{annotations: elastic, container: "env: [{name: PET_RDZV_ENDPOINT, value: 'localhost:0'}]"}.String(), want: []string{container + ".env[0].value"}},
			{reason: "one that it refuses is told once", text: job{container: "env: [{name: MASTER_ADDR, value: localhost}]"}.String()},
			{reason: "a service of the pod's own", text: job{container: "command: [python, train.py, --master_addr=localhost], env: [{name: REDIS, value: 'localhost:6379'}]"}.String()},
			{reason: "the injected one", text: job{container: `command: [bash, -c, "torchrun --master_addr=$MASTER_ADDR train.py"]`}.String()},
			{reason: "as Kubernetes refers to it", text: job{container: "command: [torchrun, --master_addr=$(MASTER_ADDR), train.py]"}.String()},
			{reason: "one pod", text: job{ranks: 1, container: "command: [torchrun, --master_addr, localhost, train.py]"}.String()},
			{reason: "a script that no shell can read", text: job{container: `command: [bash, -c, "export MASTER_ADDR=localhost; if"]`}.String()},
		},
		vet.CodeSameRank: {
			{reason: "a variable", text: job{container: "env: [{name: NODE_RANK, value: '0'}]"}.String(), want: []string{container + ".env[0].value"}},
			{reason: "a script", text: job{container: `command: [bash, -c, "export RANK=0 WORLD_SIZE=2; python train.py"]`}.String(), want: []string{command}},
			{reason: "the injected one", text: job{container: "env: [{name: NODE_RANK, value: $(ROLLCALL_RANK)}]"}.String()},
			{reason: "one pod", text: job{ranks: 1, container: "env: [{name: NODE_RANK, value: '0'}]"}.String()},
			{reason: "the one launcher", text: mpi("launcher", job{container: "env: [{name: NODE_RANK, value: '0'}]"})},
			{reason: "the local rank is the same in each pod", text: job{container: "env: [{name: LOCAL_RANK, value: '0'}]"}.String()},
		},
		vet.CodeLauncherFlags: {
			{reason: "another number of pods", text: job{container: "command: [torchrun, --nnodes=4, train.py]"}.String(), want: []string{command}},
			{reason: "the same rank everywhere", text: job{container: "command: [torchrun, --nnodes, '2', --node_rank, '0', train.py]"}.String(), want: []string{command}},
			{reason: "each for itself", text: job{container: "command: [python3, -u, -m, torch.distributed.run, --standalone, train.py]"}.String(), want: []string{command}},
			{reason: "another number of processes than the annotation", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: "command: [torchrun, --nproc-per-node=8, train.py]"}.String(), want: []string{command}},
			{reason: "in a script, over lines", text: job{container: `command: [bash, -c, "pip install a\nexec torchrun \\\n  --nnodes=4 \\\n  train.py"]`}.String(), want: []string{command}},
			{reason: "an elastic gang with a fixed number", text: job{annotations: elastic, container: "command: [torchrun, --nnodes=2, train.py]"}.String(), want: []string{command}},
			{reason: "bounds around the number", text: job{container: "command: [torchrun, '--nnodes=1:4', --rdzv-backend=c10d, --node-rank=0, train.py]"}.String()},
			{reason: "the same", text: job{container: "command: [torchrun, --nnodes=2, --nproc_per_node=8, train.py]"}.String()},
			{reason: "the injected ones", text: job{container: "command: [torchrun, --nnodes=$(PET_NNODES), --node_rank=$(RANK), train.py]"}.String()},
			{reason: "the program's own flags", text: job{container: "command: [torchrun, train.py, --nnodes=4]"}.String()},
			{reason: "another program", text: job{container: "command: [launch, --nnodes=4]"}.String()},
			{reason: "one pod alone", text: job{ranks: 1, container: "command: [torchrun, --standalone, --nnodes=1, --node_rank=0, train.py]"}.String()},
			{reason: "another framework", text: job{framework: "jax", container: "command: [torchrun, --nnodes=4, train.py]"}.String()},
			{reason: "a function that nobody calls", text: job{container: `command: [bash, -c, "f() { torchrun --nnodes=4 a.py; }; torchrun b.py"]`}.String()},
			{reason: "no flags", text: job{container: "command: [torchrun, train.py]"}.String()},
		},
		vet.CodeTorchLaunchDeprecated: {
			{reason: "the old launcher", text: job{container: "command: [python, -m, torch.distributed.launch, train.py]"}.String(), want: []string{command}},
			{reason: "the new one", text: job{container: "command: [python, -m, torch.distributed.run, train.py]"}.String()},
			{reason: "Paddle's, which is its own", text: job{framework: "paddle", container: "command: [python, -m, paddle.distributed.launch, train.py]"}.String()},
			{reason: "an argument of another program", text: job{container: "command: [grep, -m, torch.distributed.launch]"}.String()},
		},
		vet.CodeOneProcess: {
			{reason: "by the annotation", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: "command: [python3, -u, train.py]"}.String(), want: []string{command}},
			{reason: "accelerators that idle", text: job{container: "command: [python, train.py]", resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}"}.String(), want: []string{command}},
			{reason: "in a script", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: `command: [sh, -c, "cd /app && exec python train.py"]`}.String(), want: []string{command}},
			{reason: "torchrun", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: "command: [torchrun, train.py]"}.String()},
			{reason: "a module may start others", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: "command: [python, -m, accelerate.commands.launch, train.py]"}.String()},
			{reason: "one for each accelerator, by a loop", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: `command: [sh, -c, "for i in 0 1; do LOCAL_RANK=$i python train.py & done; wait"]`}.String()},
			{reason: "in the background", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: `command: [sh, -c, "python train.py & wait"]`}.String()},
			{reason: "with its output in a file too", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: `command: [sh, -c, "python train.py | tee log"]`}.String(), want: []string{command}},
			{reason: "a program that is not known", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: `command: [sh, -c, "python setup.py && ./train"]`}.String()},
			{reason: "one accelerator", text: job{container: "command: [python, train.py]", resources: "limits: {memory: 1Gi, nvidia.com/gpu: 1}"}.String()},
			{reason: "cores are for threads", text: job{container: "command: [python, train.py]", resources: "limits: {memory: 1Gi, cpu: 8}"}.String()},
			{reason: "JAX has one process for all accelerators", text: job{framework: "jax", container: "command: [python, train.py]", resources: "limits: {memory: 1Gi, nvidia.com/gpu: 8}"}.String()},
			{reason: "the image's own command", text: job{annotations: "rollcall.training/nproc-per-node: '2'", container: "args: [python, train.py]"}.String()},
		},
		vet.CodeElasticWithoutTorchrun: {
			{reason: "started directly", text: job{annotations: elastic, container: "command: [python, train.py]"}.String(), want: []string{command}},
			{reason: "torchrun", text: job{annotations: elastic, container: "command: [torchrun, train.py]"}.String()},
			{reason: "not elastic", text: job{container: "command: [python, train.py]"}.String()},
			{reason: "elastic Horovod has a launcher", text: mpi("launcher", job{container: "command: [python, train.py]"})},
		},
		vet.CodeWorkerWithoutSSHD: {
			{reason: "it sleeps", text: mpi("worker", job{container: "command: [sleep, infinity]"}), want: []string{command}},
			{reason: "it trains", text: mpi("worker", job{container: "command: [python, train.py]"}), want: []string{command}},
			{reason: "it launches", text: mpi("worker", job{container: `command: [sh, -c, "cd /a; mpirun ./a"]`}), want: []string{command}},
			{reason: "no command", text: mpi("worker", job{})},
			{reason: "sshd", text: mpi("worker", job{container: "command: [/usr/sbin/sshd, -D]"})},
			{reason: "a script of the image", text: mpi("worker", job{container: "command: [/entrypoint.sh]"})},
			{reason: "sshd, and sleep", text: mpi("worker", job{container: `command: [sh, -c, "/usr/sbin/sshd; sleep infinity"]`})},
			{reason: "a script that is read in", text: mpi("worker", job{container: `command: [sh, -c, ". /start; sleep infinity"]`})},
			{reason: "the launcher", text: mpi("launcher", job{container: "command: [python, launch.py]"})},
			{reason: "a framework without a launcher", text: job{container: "command: [sleep, infinity]"}.String()},
		},
		vet.CodeTooManyProcesses: {
			{reason: "two hosts of four", text: mpi("launcher", job{container: "command: [mpirun, -np, '9', ./a]"}), want: []string{command}},
			{reason: "after options", text: mpi("launcher", job{container: "command: [mpirun, --allow-run-as-root, -x, PATH, --mca, btl, tcp, --np=9, ./a]"}), want: []string{command}},
			{reason: "as many", text: mpi("launcher", job{container: "command: [mpirun, -np, '8', ./a]"})},
			{reason: "the program's own", text: mpi("launcher", job{container: "command: [mpirun, ./a, -n, '100']"})},
			{reason: "more on each host on purpose", text: mpi("launcher", job{container: "command: [mpirun, --oversubscribe, -np, '9', ./a]"})},
			{reason: "the same in other words", text: mpi("launcher", job{container: "command: [mpirun, -np, '9', --map-by, ':OVERSUBSCRIBE', ./a]"})},
			{reason: "other hosts", text: mpi("launcher", job{container: "command: [mpirun, -np, '9', --hostfile, /mine, ./a]"})},
			{reason: "MPICH begins again with the first host", text: mpi("launcher", job{annotations: "rollcall.training/mpi-implementation: mpich", container: "command: [mpirun, -np, '9', ./a]"})},
			{reason: "horovodrun", text: horovod("command: [horovodrun, -np, '9', --hostfile, /etc/mpi/hostfile, python, a.py]"), want: []string{command}},
			{reason: "horovodrun with as many", text: horovod("command: [horovodrun, -np, '8', --hostfile, /etc/mpi/hostfile, python, a.py]")},
			{reason: "horovodrun with hosts of its own", text: horovod("command: [horovodrun, -np, '9', --hostfile, /mine, python, a.py]")},
			{reason: "an option that is not known", text: mpi("launcher", job{container: "command: [mpirun, --new, -np, '9', ./a]"})},
		},
		vet.CodeHorovodWithoutHosts: {
			{reason: "none are named", text: horovod("command: [horovodrun, -np, '8', python, a.py]"), want: []string{command}},
			{reason: "a hostfile", text: horovod("command: [horovodrun, -np, '8', --hostfile=/etc/mpi/hostfile, python, a.py]")},
			{reason: "a script", text: horovod("command: [horovodrun, -np, '8', --host-discovery-script, /etc/mpi/discover_hosts.sh, python, a.py]")},
			{reason: "what a variable holds is not known", text: horovod(`command: [bash, -c, "horovodrun $OPTIONS python a.py"]`)},
			{reason: "mpirun reads a variable", text: horovod("command: [mpirun, python, a.py]")},
			{reason: "a launcher alone", text: job{framework: "horovod", ranks: 1, container: "command: [horovodrun, -np, '2', python, a.py]"}.String()},
		},
	}
}

// horovod is the launcher of a gang of Horovod.
func horovod(container string) string {
	return strings.Replace(mpi("launcher", job{container: container}), "framework: mpi", "framework: horovod", 1)
}
