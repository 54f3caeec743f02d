package vet_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/vet"
)

func rankCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		vet.CodeLoopbackRendezvous: {
			{
				name: "flag of accelerate",
				manifest: testJob{
					container: "command: [accelerate, launch, --num_machines=2, --main_process_ip, localhost, train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name:     "flag of composer",
				manifest: testJob{container: "command: [composer, --master_addr=127.0.0.1, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name: "flag of deepspeed",
				manifest: testJob{
					container: "command: [deepspeed, --no_ssh, --hostfile=/h, --master_addr, localhost, train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name:     "exported variable in a script",
				manifest: testJob{container: `command: [bash, -ec, "export MASTER_ADDR=localhost\ntorchrun train.py"]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "variable before a command",
				manifest: testJob{container: `command: [bash, -c, "MASTER_ADDR=127.0.0.1 python train.py"]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "torchrun flag with the address",
				manifest: testJob{container: "command: [torchrun, --master_addr, localhost, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name: "torchrun flag with the endpoint",
				manifest: testJob{
					annotations: elasticAnnotation,
					container:   "command: [torchrun, '--rdzv-endpoint=localhost:29400', train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "variable that the webhook admits",
				manifest: testJob{
					annotations: elasticAnnotation,
					container:   "env: [{name: PET_RDZV_ENDPOINT, value: 'localhost:0'}]",
				}.String(),
				want: []string{containerPath + ".env[0].value"},
			},
			{
				name:     "variable that the webhook rejects is reported once",
				manifest: testJob{container: "env: [{name: MASTER_ADDR, value: localhost}]"}.String(),
			},
			{
				name: "localhost for other purposes",
				manifest: testJob{
					container: "command: [python, train.py, --master_addr=localhost], env: [{name: REDIS, value: 'localhost:6379'}]",
				}.String(),
			},
			{
				name:     "injected variable in the command",
				manifest: testJob{container: `command: [bash, -c, "torchrun --master_addr=$MASTER_ADDR train.py"]`}.String(),
			},
			{
				name:     "injected variable in the syntax of Kubernetes",
				manifest: testJob{container: "command: [torchrun, --master_addr=$(MASTER_ADDR), train.py]"}.String(),
			},
			{
				name:     "gang of one pod",
				manifest: testJob{ranks: 1, container: "command: [torchrun, --master_addr, localhost, train.py]"}.String(),
			},
			{
				name:     "script with invalid syntax",
				manifest: testJob{container: `command: [bash, -c, "export MASTER_ADDR=localhost; if"]`}.String(),
			},
		},
		vet.CodeHardcodedRank: {
			{
				name:     "environment variable",
				manifest: testJob{container: "env: [{name: NODE_RANK, value: '0'}]"}.String(),
				want:     []string{containerPath + ".env[0].value"},
			},
			{
				name:     "exported variable in a script",
				manifest: testJob{container: `command: [bash, -c, "export RANK=0 WORLD_SIZE=2; python train.py"]`}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "name instead of a number",
				manifest: testJob{container: "env: [{name: NODE_RANK, value: worker-0}]"}.String(),
				want:     []string{containerPath + ".env[0].value"},
			},
			{
				name: "name of the pod",
				manifest: testJob{
					container: "env: [{name: RANK, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
				}.String(),
				want: []string{containerPath + ".env[0]"},
			},
			{
				name: "name of the pod that a script converts",
				manifest: testJob{
					container: `command: [sh, -c, "export RANK=${RANK##*-}; python train.py"], ` +
						"env: [{name: RANK, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
				}.String(),
			},
			{
				name: "task of a TF_CONFIG",
				manifest: testJob{
					framework: "generic",
					container: `env: [{name: TF_CONFIG, value: '{"task":{"type":"worker","index":0}}'}]`,
				}.String(),
				want: []string{containerPath + ".env[0].value"},
			},
			{
				name: "task of a TF_CONFIG in a script",
				manifest: testJob{
					framework: "tensorflow",
					container: `command: [sh, -c, "TF_CONFIG='{\"task\":{\"type\":\"worker\",\"index\":1}}' python train.py"]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "task of a TF_CONFIG that the webhook rejects is reported once",
				manifest: testJob{
					framework: "tensorflow",
					container: `env: [{name: TF_CONFIG, value: '{"task":{"type":"worker","index":0}}'}]`,
				}.String(),
			},
			{
				name: "TF_CONFIG without a task",
				manifest: testJob{
					framework: "generic", container: "env: [{name: TF_CONFIG, value: '{}'}]",
				}.String(),
			},
			{
				name: "TF_CONFIG with the index of the pod",
				manifest: testJob{
					framework: "generic",
					container: `env: [{name: TF_CONFIG, value: '{"task":{"type":"worker","index":$(ROLLCALL_RANK)}}'}]`,
				}.String(),
			},
			{
				name:     "rank of the pod",
				manifest: testJob{container: "env: [{name: NODE_RANK, value: $(ROLLCALL_RANK)}]"}.String(),
			},
			{name: "gang of one pod", manifest: testJob{ranks: 1, container: "env: [{name: NODE_RANK, value: '0'}]"}.String()},
			{
				name:     "role with a single pod",
				manifest: mpiMemberYAML("launcher", testJob{container: "env: [{name: NODE_RANK, value: '0'}]"}),
			},
			{
				name:     "local rank is the same in all pods",
				manifest: testJob{container: "env: [{name: LOCAL_RANK, value: '0'}]"}.String(),
			},
		},
		vet.CodeUnresolvableRendezvous: {
			{
				name:     "pod of another workload",
				manifest: testJob{container: "command: [torchrun, --master_addr, foo-0.bar, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "hostname without the Service",
				manifest: testJob{container: "command: [torchrun, '--rdzv-endpoint=train-0:29500', train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "pod of a different Service",
				manifest: testJob{container: "command: [torchrun, --master_addr=train-1.other.default.svc, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name: "variable in a script",
				manifest: testJob{
					container: `command: [bash, -cx, "MASTER_ADDR=train-worker-0.train torchrun train.py"]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name:     "flag of accelerate",
				manifest: testJob{container: "command: [accelerate, launch, --main_process_ip=foo-0.bar, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "index of a pod that does not exist",
				manifest: testJob{container: "command: [torchrun, --master_addr, train-2.train, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name: "flag of paddle",
				manifest: testJob{
					framework: "paddle",
					container: "command: [python, -m, paddle.distributed.launch, '--master=foo-0.bar:123', train.py]",
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "etcd as the master of paddle",
				manifest: testJob{
					framework: "paddle",
					container: "command: [python, -m, paddle.distributed.launch, --master, 'etcd://etcd-0.etcd:2379', a.py]",
				}.String(),
			},
			{
				name: "TF_CONFIG of other hosts",
				manifest: testJob{
					framework: "generic",
					container: `env: [{name: TF_CONFIG, value: '{"cluster":{"worker":["a-0.b:2222","a-1.b:2222"]}}'}]`,
				}.String(),
				want: []string{containerPath + ".env[0].value"},
			},
			{
				name: "TF_CONFIG of the hosts of the gang",
				manifest: testJob{
					framework: "generic",
					container: `env: [{name: TF_CONFIG, value: '{"cluster":{"worker":["train-0.train:1","train-1.train:1"]}}'}]`,
				}.String(),
			},
			{
				name: "pod that an elastic gang can have later",
				manifest: testJob{
					annotations: elasticAnnotation,
					container:   "command: [torchrun, '--rdzv-endpoint=train-2.train:29400', train.py]",
				}.String(),
			},
			{
				name: "etcd as the rendezvous backend",
				manifest: testJob{
					container: "command: [torchrun, --rdzv-backend=etcd-v2, '--rdzv-endpoint=etcd-0.etcd:2379', train.py]",
				}.String(),
			},
			{
				name:     "short address of rank 0",
				manifest: testJob{container: "command: [torchrun, --master_addr, train-0.train, train.py]"}.String(),
			},
			{
				name: "complete address of rank 0",
				manifest: testJob{
					container: "command: [torchrun, '--rdzv-endpoint=train-0.train.default.svc.cluster.local:29500', train.py]",
				}.String(),
			},
			{
				name: "rank 0 of a Job with its own subdomain",
				manifest: testJob{
					pod:       "subdomain: ddp",
					container: "command: [torchrun, --master_addr=train-0.ddp, a.py]",
				}.String(),
			},
			{
				name: "pod of another workload in the input",
				manifest: joinDocuments(
					testJob{container: "command: [torchrun, '--rdzv-endpoint=etcd-0.etcd:2379', train.py]"}.String(),
					testJob{kind: "StatefulSet", name: "etcd", framework: "none"}.String(),
				),
			},
			{
				name: "name of a Service",
				manifest: joinDocuments(
					testJob{container: "command: [torchrun, --master_addr=train-0, train.py]"}.String(),
					serviceYAML("train-0", "selector: {batch.kubernetes.io/job-completion-index: '0'}"),
				),
			},
			{
				name:     "name of a Service that is not in the input",
				manifest: testJob{container: "command: [torchrun, '--rdzv_endpoint=master:29400', train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "name of a pod that is not in the gang",
				manifest: testJob{container: "command: [torchrun, --master_addr, old-master-0, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name: "name of a Service in the input",
				manifest: joinDocuments(
					testJob{container: "command: [torchrun, '--rdzv-endpoint=master:29400', train.py]"}.String(),
					serviceYAML("master", "selector: {batch.kubernetes.io/job-completion-index: '0'}"),
				),
			},
			{
				name:     "Service of the gang",
				manifest: testJob{container: "command: [torchrun, '--rdzv-endpoint=train:29400', train.py]"}.String(),
			},
			{
				name: "host that the resolver of the node knows",
				manifest: testJob{
					pod: "hostNetwork: true", container: "command: [torchrun, --master_addr=node1, train.py]",
				}.String(),
			},
			{
				name: "etcd as the rendezvous backend without a domain",
				manifest: testJob{
					container: "command: [torchrun, --rdzv_backend=etcd, '--rdzv_endpoint=etcd:2379', train.py]",
				}.String(),
			},
			{
				name:     "IP address",
				manifest: testJob{container: "command: [torchrun, --master_addr=192.0.2.1, train.py]"}.String(),
			},
			{
				name:     "host outside the cluster",
				manifest: testJob{container: "command: [torchrun, --master_addr=node-1.example.com, train.py]"}.String(),
			},
			{
				name:     "host of a private domain",
				manifest: testJob{container: "command: [torchrun, --master_addr=node-1.internal, train.py]"}.String(),
			},
			{
				name:     "injected variable",
				manifest: testJob{container: "command: [torchrun, --master_addr=$(MASTER_ADDR), train.py]"}.String(),
			},
			{
				name:     "gang of one pod",
				manifest: testJob{ranks: 1, container: "command: [torchrun, --master_addr=foo-0.bar, train.py]"}.String(),
			},
		},
	}
}

// TestFlagSeverities verifies that a flag or a variable with which the ranks cannot find each other is an error, unless
// a script could skip it or the program could ignore it.
func TestFlagSeverities(t *testing.T) {
	cases := map[string]struct {
		command string
		want    []vet.Severity
	}{
		"rank 0 at an address outside of the gang": {
			command: "[torchrun, --master-addr=foo-0.bar, train.py]",
			want:    []vet.Severity{vet.Error},
		},
		"rank 0 at a name that a Service can have": {
			command: "[torchrun, --master-addr=master, train.py]",
			want:    []vet.Severity{vet.Warning},
		},
		"rank 0 at localhost": {
			command: "[torchrun, --master-addr=localhost, train.py]",
			want:    []vet.Severity{vet.Error},
		},
		"one rank for all nodes": {
			command: "[torchrun, --node-rank=0, train.py]",
			want:    []vet.Severity{vet.Error},
		},
		"script of one command": {
			command: `[sh, -c, "exec torchrun --node-rank=0 train.py"]`,
			want:    []vet.Severity{vet.Error},
		},
		"script that can choose by the rank": {
			command: `[sh, -c, "test $RANK = 0 && torchrun --node-rank=0 train.py"]`,
			want:    []vet.Severity{vet.Warning},
		},
		"condition of the shell that can choose by the rank": {
			command: `[sh, -c, "if (( RANK == 0 )); then torchrun --node-rank=0 train.py; fi"]`,
			want:    []vet.Severity{vet.Warning},
		},
		"variable that torchrun replaces": {
			command: `[sh, -c, "export MASTER_ADDR=localhost; torchrun train.py"]`,
			want:    []vet.Severity{vet.Warning},
		},
		"variable that torchrun reads": {
			command: `[sh, -c, "export PET_MASTER_ADDR=localhost; torchrun train.py"]`,
			want:    []vet.Severity{vet.Error},
		},
		"variable that the program reads": {
			command: `[sh, -c, "export MASTER_ADDR=localhost; python train.py"]`,
			want:    []vet.Severity{vet.Error},
		},
		"variable that a condition can skip": {
			command: `[sh, -c, "[[ $RANK = 0 ]] && export MASTER_ADDR=localhost; python train.py"]`,
			want:    []vet.Severity{vet.Warning},
		},
		"variable of the container that torchrun reads": {
			command: "[torchrun, train.py], env: [{name: PET_RDZV_ENDPOINT, value: foo-0.bar}]",
			want:    []vet.Severity{vet.Error},
		},
		"address of another launcher": {
			command: "[torchrun, train.py], env: [{name: COORDINATOR_ADDRESS, value: foo-0.bar}]",
			want:    []vet.Severity{vet.Warning},
		},
		"rank in a script that replaces the injected rank": {
			command: `[sh, -c, "export RANK=0; python train.py"]`,
			want:    []vet.Severity{vet.Error},
		},
		"rank in a script that assigns it again": {
			command: `[sh, -c, "RANK=0; RANK=$JOB_COMPLETION_INDEX; export RANK; python train.py"]`,
			want:    []vet.Severity{vet.Warning},
		},
		"number that the program may not read": {
			command: "[python, train.py], env: [{name: NODE_RANK, value: '0'}]",
			want:    []vet.Severity{vet.Warning},
		},
		"name instead of a rank": {
			command: "[python, train.py], env: [{name: NODE_RANK, value: worker-0}]",
			want:    []vet.Severity{vet.Warning},
		},
		"name in a flag": {
			command: "[torchrun, --node-rank=worker-0, train.py]",
			want:    []vet.Severity{vet.Error},
		},
		"name of the pod in a flag": {
			command: "[torchrun, --node-rank=$(POD), train.py], " +
				"env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
			want: []vet.Severity{vet.Error},
		},
		"name of a variable in a flag": {
			command: "[torchrun, --node-rank=$(NODE), train.py], env: [{name: NODE, value: worker-0}]",
			want:    []vet.Severity{vet.Error},
		},
		"hostname in a flag of a script": {
			command: `[sh, -c, 'torchrun --node_rank="$HOSTNAME" train.py']`,
			want:    []vet.Severity{vet.Error},
		},
		"name of the pod in a flag of a script": {
			command: "[sh, -c, 'torchrun --node_rank ${POD} train.py'], " +
				"env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
			want: []vet.Severity{vet.Error},
		},
		"index of the hostname in a flag of a script": {
			command: "[sh, -c, 'torchrun --node_rank=${HOSTNAME##*-} train.py']",
		},
		"hostname that a script changes": {
			command: "[sh, -c, 'HOSTNAME=${HOSTNAME##*-}; torchrun --node_rank=$HOSTNAME train.py']",
		},
		"hostname that the container sets to the rank": {
			command: "[sh, -c, 'torchrun --node_rank=$HOSTNAME train.py'], env: [{name: HOSTNAME, value: $(ROLLCALL_RANK)}]",
		},
		"name of the pod that torchrun reads": {
			command: "[torchrun, train.py], env: [{name: PET_NODE_RANK, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
			want:    []vet.Severity{vet.Error},
		},
		"name of the pod that the program reads": {
			command: "[python, train.py], env: [{name: RANK, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
			want:    []vet.Severity{vet.Error},
		},
		"reference to the name of the pod that the program reads": {
			command: "[python, train.py], env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, " +
				"{name: RANK, value: $(POD)}]",
			want: []vet.Severity{vet.Error},
		},
		"name of the pod that torchrun replaces": {
			command: "[torchrun, train.py], env: [{name: RANK, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
			want:    []vet.Severity{vet.Warning},
		},
		"rank in a script that the program may not read": {
			command: `[sh, -c, "export SLURM_PROCID=0; python train.py"]`,
			want:    []vet.Severity{vet.Warning},
		},
		"number of a variable in a flag": {
			command: "[torchrun, --node-rank=$(NODE), train.py], env: [{name: NODE, value: $(ROLLCALL_RANK)}]",
		},
		"flag that contradicts the size of the gang": {
			command: "[torchrun, --nnodes=3, train.py]",
			want:    []vet.Severity{vet.Warning},
		},
	}
	reported := []vet.Code{
		vet.CodeLoopbackRendezvous, vet.CodeUnresolvableRendezvous, vet.CodeLauncherFlagConflict, vet.CodeHardcodedRank,
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []vet.Severity
			for _, f := range runVet(t, testJob{container: "command: " + c.command}.String()).Findings {
				if slices.Contains(reported, f.Code) {
					got = append(got, f.Severity)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("severities (-want +got):\n" + diff)
			}
		})
	}
}
