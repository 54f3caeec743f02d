package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

func launcherHostCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		"LauncherWithoutHosts": {
			{
				name:     "no hosts",
				manifest: horovodLauncherYAML("command: [horovodrun, -np, '8', python, a.py]"),
				want:     []string{commandPath},
			},
			{
				name:     "hostfile",
				manifest: horovodLauncherYAML("command: [horovodrun, -np, '8', --hostfile=/etc/mpi/hostfile, python, a.py]"),
			},
			{
				name: "discovery script",
				manifest: horovodLauncherYAML(
					"command: [horovodrun, -np, '8', --host-discovery-script, /etc/mpi/discover_hosts.sh, python, a.py]",
				),
			},
			{
				name:     "options in a variable",
				manifest: horovodLauncherYAML(`command: [bash, -c, "horovodrun $OPTIONS python a.py"]`),
			},
			{
				name:     "role named launcher of a generic gang",
				manifest: genericLauncherYAML(testJob{container: "command: [horovodrun, -np, '8', python, a.py]"}),
			},
			{name: "mpirun reads a variable", manifest: horovodLauncherYAML("command: [mpirun, python, a.py]")},
			{
				name: "launcher without workers",
				manifest: testJob{
					framework: "horovod",
					ranks:     1,
					container: "command: [horovodrun, -np, '2', python, a.py]",
				}.String(),
			},
			{
				name: "horovodrun in workers without a launcher",
				manifest: testJob{
					container: `command: [horovodrun, -np, "8", python, a.py]`,
				}.String(),
				want: []string{commandPath},
			},
			{
				name: "horovodrun with the build of Horovod",
				manifest: testJob{
					container: `command: [horovodrun, --check-build]`,
				}.String(),
			},
			{
				name:     "deepspeed in workers without a launcher",
				manifest: testJob{framework: "deepspeed", container: "command: [deepspeed, train.py]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "options before the program",
				manifest: testJob{container: "command: [deepspeed, --num_gpus=8, train.py, --deepspeed, ds.json]"}.String(),
				want:     []string{commandPath},
			},
			{
				name:     "deepspeed with a hostfile",
				manifest: testJob{container: "command: [deepspeed, --hostfile=/hosts, train.py]"}.String(),
			},
			{
				name:     "rank for each node",
				manifest: testJob{container: "command: [deepspeed, --no_ssh, '--node_rank=$(ROLLCALL_RANK)', train.py]"}.String(),
			},
			{
				name:     "torchrun",
				manifest: testJob{framework: "deepspeed", container: "command: [torchrun, train.py]"}.String(),
			},
			{
				name:     "deepspeed in a gang of one pod",
				manifest: testJob{ranks: 1, container: "command: [deepspeed, train.py]"}.String(),
			},
			{
				name: "deepspeed in a launcher",
				manifest: strings.Replace(
					mpiMemberYAML("launcher", testJob{container: "command: [deepspeed, train.py]"}),
					"framework: mpi",
					"framework: deepspeed",
					1,
				),
			},
		},
	}
}
