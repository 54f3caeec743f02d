package vet_test

import "rollcall.training/internal/vet"

func launcherCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		vet.CodeWorkerWithoutSSHD: {
			{
				name: "sshd in a gang with the agent",
				manifest: mpiMemberYAML("worker", testJob{
					annotations: "rollcall.training/launch: agent", container: `command: [/usr/sbin/sshd, -De]`,
				}),
				want: []string{commandPath},
			},
			{
				name: "sleep in a gang with the agent",
				manifest: mpiMemberYAML("worker", testJob{
					annotations: "rollcall.training/launch: agent", container: `command: [sleep, infinity]`,
				}),
				want: []string{commandPath},
			},
			{
				name: "the agent at the end of a script",
				manifest: mpiMemberYAML("worker", testJob{
					annotations: "rollcall.training/launch: agent",
					container:   `command: [bash, -c, "ulimit -l unlimited; exec /opt/rollcall/agent serve"]`,
				}),
			},
			{
				name: "sshd with its own configuration",
				manifest: mpiMemberYAML(
					"worker",
					testJob{container: `command: [/usr/sbin/sshd, -De, -f, /home/mpiuser/.sshd_config]`},
				),
				want: []string{commandPath},
			},
			{
				name:     "sshd with a different port",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [/usr/sbin/sshd, -De, -p, "22"]`}),
				want:     []string{commandPath},
			},
			{
				name:     "port in a group of options",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [/usr/sbin/sshd, -Dep22]`}),
				want:     []string{commandPath},
			},
			{
				name: "sshd with a different port in a script",
				manifest: mpiMemberYAML(
					"worker",
					testJob{container: `command: [bash, -c, "mkdir -p /run/sshd; exec /usr/sbin/sshd -p 22 -D"]`},
				),
				want: []string{commandPath},
			},
			{
				name:     "service in the background",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [service, ssh, start]`}),
				want:     []string{commandPath},
			},
			{
				name: "service at the end of a script",
				manifest: mpiMemberYAML(
					"worker",
					testJob{container: `command: [bash, -c, "mkdir -p /run/sshd && service ssh start"]`},
				),
				want: []string{commandPath},
			},
			{
				name:     "init script in the background",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [/etc/init.d/ssh, start]`}),
				want:     []string{commandPath},
			},
			{
				name:     "sshd in the background",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [/usr/sbin/sshd]`}),
				want:     []string{commandPath},
			},
			{
				name: "sshd with the file and port of Rollcall",
				manifest: mpiMemberYAML(
					"worker",
					testJob{container: `command: [/usr/sbin/sshd, -De, -f, /etc/ssh/sshd_config, -p, "2222"]`},
				),
			},
			{
				name: "ulimit before sshd",
				manifest: mpiMemberYAML(
					"worker",
					testJob{container: `command: [bash, -c, "ulimit -l unlimited; exec /usr/sbin/sshd -De"]`},
				),
			},
			{
				name:     "service before sleep",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [bash, -c, "service ssh start; sleep infinity"]`}),
			},
			{
				name:     "options in a variable",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [bash, -c, "/usr/sbin/sshd $OPTIONS"]`}),
			},
			{
				name:     "worker sleeps",
				manifest: mpiMemberYAML("worker", testJob{container: "command: [sleep, infinity]"}),
				want:     []string{commandPath},
			},
			{
				name:     "worker trains",
				manifest: mpiMemberYAML("worker", testJob{container: "command: [python, train.py]"}),
				want:     []string{commandPath},
			},
			{
				name:     "worker runs a launcher",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [sh, -c, "cd /a; mpirun ./a"]`}),
				want:     []string{commandPath},
			},
			{name: "no command", manifest: mpiMemberYAML("worker", testJob{})},
			{name: "sshd", manifest: mpiMemberYAML("worker", testJob{container: "command: [/usr/sbin/sshd, -D]"})},
			{name: "script of the image", manifest: mpiMemberYAML("worker", testJob{container: "command: [/entrypoint.sh]"})},
			{
				name:     "sshd before sleep",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [sh, -c, "/usr/sbin/sshd; sleep infinity"]`}),
			},
			{
				name:     "sourced script before sleep",
				manifest: mpiMemberYAML("worker", testJob{container: `command: [sh, -c, ". /start; sleep infinity"]`}),
			},
			{
				name:     "launcher without sshd",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [python, launch.py]"}),
			},
			{name: "framework without a launcher", manifest: testJob{container: "command: [sleep, infinity]"}.String()},
		},
		"TooManyProcesses": {
			{
				name:     "more processes than slots in a traced shell",
				manifest: mpiMemberYAML("launcher", testJob{container: `command: [bash, -cx, "time -p mpirun -np 12 ./a"]`}),
				want:     []string{commandPath},
			},
			{
				name:     "more processes than slots with a timeout",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [timeout, '60', mpirun, -np, '12', ./a]"}),
				want:     []string{commandPath},
			},
			{
				name:     "nine processes in eight slots",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '9', ./a]"}),
				want:     []string{commandPath},
			},
			{
				name: "count after other options",
				manifest: mpiMemberYAML(
					"launcher",
					testJob{container: "command: [mpirun, --allow-run-as-root, -x, PATH, --mca, btl, tcp, --np=9, ./a]"},
				),
				want: []string{commandPath},
			},
			{
				name:     "as many processes as slots",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '8', ./a]"}),
			},
			{
				name:     "option of the training program",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, ./a, -n, '100']"}),
			},
			{
				name:     "oversubscription",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, --oversubscribe, -np, '9', ./a]"}),
			},
			{
				name: "oversubscription with map-by",
				manifest: mpiMemberYAML(
					"launcher",
					testJob{container: "command: [mpirun, -np, '9', --map-by, ':OVERSUBSCRIBE', ./a]"},
				),
			},
			{
				name:     "custom hostfile",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '9', --hostfile, /mine, ./a]"}),
			},
			{
				name: "MPICH allows more processes than slots",
				manifest: mpiMemberYAML(
					"launcher",
					testJob{annotations: "rollcall.training/mpi-implementation: mpich", container: "command: [mpirun, -np, '9', ./a]"},
				),
			},
			{
				name:     "horovodrun with too many processes",
				manifest: horovodLauncherYAML("command: [horovodrun, -np, '9', --hostfile, /etc/mpi/hostfile, python, a.py]"),
				want:     []string{commandPath},
			},
			{
				name:     "horovodrun with as many processes as slots",
				manifest: horovodLauncherYAML("command: [horovodrun, -np, '8', --hostfile, /etc/mpi/hostfile, python, a.py]"),
			},
			{
				name:     "horovodrun with a custom hostfile",
				manifest: horovodLauncherYAML("command: [horovodrun, -np, '9', --hostfile, /mine, python, a.py]"),
			},
			{
				name:     "unknown option before the count",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, --new, -np, '9', ./a]"}),
			},
		},
		"IdleSlots": {
			{
				name:     "four processes in eight slots",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '4', ./a]"}),
				want:     []string{commandPath},
			},
			{
				name:     "horovodrun with four processes in eight slots",
				manifest: horovodLauncherYAML("command: [horovodrun, -np, '4', --hostfile, /etc/mpi/hostfile, python, a.py]"),
				want:     []string{commandPath},
			},
			{
				name:     "as many processes as slots",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '8', ./a]"}),
			},
			{
				name:     "more processes than slots",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '9', ./a]"}),
			},
			{
				name:     "all slots without a count",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, ./a]"}),
			},
			{
				name:     "one process on each host by map-by",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '2', --map-by, 'ppr:1:node', ./a]"}),
			},
			{
				name:     "one process on each host by N",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '2', -N, '1', ./a]"}),
			},
			{
				name:     "two programs of one call",
				manifest: mpiMemberYAML("launcher", testJob{container: "command: [mpirun, -np, '1', ./a, ':', -np, '7', ./b]"}),
			},
			{
				name: "a short test before the training",
				manifest: mpiMemberYAML(
					"launcher", testJob{container: `command: [bash, -c, "mpirun -np 2 hostname && mpirun -np 8 ./a"]`},
				),
			},
			{
				name:     "a call in the background",
				manifest: mpiMemberYAML("launcher", testJob{container: `command: [bash, -c, "mpirun -np 2 ./a & wait"]`}),
			},
			{
				name:     "worker",
				manifest: mpiMemberYAML("worker", testJob{container: "command: [mpirun, -np, '2', ./a]"}),
			},
		},
		vet.CodeSSHPortMismatch: {
			{
				name: "probe at port 22 of a worker with the agent",
				manifest: mpiMemberYAML("worker", testJob{
					annotations: "rollcall.training/launch: agent", container: `readinessProbe: {tcpSocket: {port: 22}}`,
				}),
				want: []string{containerPath + ".readinessProbe.tcpSocket.port"},
			},
			{
				name: "port in the command of a launcher with the agent",
				manifest: mpiMemberYAML("launcher", testJob{
					annotations: "rollcall.training/launch: agent",
					container:   `command: [ssh, -p, "22", sim-worker-0, hostname]`,
				}),
			},
			{
				name:     "probe at port 22",
				manifest: mpiMemberYAML("worker", testJob{container: `readinessProbe: {tcpSocket: {port: 22}}`}),
				want:     []string{containerPath + ".readinessProbe.tcpSocket.port"},
			},
			{
				name: "probe at a named port",
				manifest: mpiMemberYAML(
					"worker",
					testJob{container: `ports: [{name: ssh, containerPort: 22}], livenessProbe: {tcpSocket: {port: ssh}}`},
				),
				want: []string{containerPath + ".livenessProbe.tcpSocket.port"},
			},
			{
				name:     "probe with a command",
				manifest: mpiMemberYAML("worker", testJob{container: `startupProbe: {exec: {command: [nc, -z, localhost, "22"]}}`}),
				want:     []string{containerPath + ".startupProbe.exec.command"},
			},
			{
				name: "hook that waits for sshd",
				manifest: mpiMemberYAML(
					"worker",
					testJob{
						container: `lifecycle: {postStart: {exec: {command: [bash, -c, "until </dev/tcp/localhost/22; do :; done"]}}}`,
					},
				),
				want: []string{containerPath + ".lifecycle.postStart.exec.command"},
			},
			{
				name:     "options of ssh for Open MPI",
				manifest: mpiMemberYAML("launcher", testJob{container: `command: [mpirun, -mca, plm_rsh_args, "-p 22", ./a]`}),
				want:     []string{commandPath},
			},
			{
				name: "ssh in a script",
				manifest: mpiMemberYAML(
					"launcher",
					testJob{container: `command: [bash, -c, "ssh -i /key -p 22 sim-worker-0 true"]`},
				),
				want: []string{commandPath},
			},
			{
				name:     "option of ssh with a name",
				manifest: mpiMemberYAML("launcher", testJob{container: `command: [ssh, -o, Port=2022, sim-worker-0, hostname]`}),
				want:     []string{commandPath},
			},
			{
				name:     "variable of Open MPI",
				manifest: mpiMemberYAML("launcher", testJob{container: `env: [{name: OMPI_MCA_plm_rsh_args, value: "-p 22"}]`}),
				want:     []string{containerPath + ".env[0].value"},
			},
			{
				name: "port of horovodrun",
				manifest: horovodLauncherYAML(
					"command: [horovodrun, -np, '8', -p, '12345', --hostfile, /etc/mpi/hostfile, python, a.py]",
				),
				want: []string{commandPath},
			},
			{
				name:     "probe at the port of Rollcall",
				manifest: mpiMemberYAML("worker", testJob{container: `readinessProbe: {tcpSocket: {port: 2222}}`}),
			},
			{
				name:     "probe at another port",
				manifest: mpiMemberYAML("worker", testJob{container: `readinessProbe: {tcpSocket: {port: 8080}}`}),
			},
			{
				name:     "no probe",
				manifest: mpiMemberYAML("worker", testJob{container: ``}),
			},
			{
				name:     "port of Rollcall",
				manifest: mpiMemberYAML("launcher", testJob{container: `command: [mpirun, -mca, plm_rsh_args, "-p 2222", ./a]`}),
			},
			{
				name: "options of ssh without a port",
				manifest: mpiMemberYAML(
					"launcher",
					testJob{container: `command: [mpirun, -mca, plm_rsh_args, "-o LogLevel=ERROR", ./a]`},
				),
			},
			{
				name:     "option of a remote command",
				manifest: mpiMemberYAML("launcher", testJob{container: `command: [ssh, sim-worker-0, mkdir, -p, "22"]`}),
			},
			{
				name:     "framework without a launcher",
				manifest: testJob{container: "readinessProbe: {tcpSocket: {port: 22}}"}.String(),
			},
		},
	}
}
