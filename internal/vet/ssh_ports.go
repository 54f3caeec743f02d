package vet

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

func checkSSHPort(r *reporter, w *labeledWorkload) {
	if !w.gang.HasSSHHosts() {
		return
	}
	for _, c := range w.trainingContainers() {
		switch {
		case w.gang.Role == gang.RoleLauncher && w.gang.Launcher.UsesAgent(): // the agent ignores the port
		case w.gang.Role == gang.RoleLauncher:
			r.checkLauncherSSHPort(w, c)
		default:
			r.checkWorkerSSHPort(w, c)
		}
	}
}

// defaultSSHPort is the port of SSH without Rollcall.
const defaultSSHPort = "22"

// checkWorkerSSHPort finds probes and hooks that wait for port 22.
func (r *reporter) checkWorkerSSHPort(w *labeledWorkload, c trainingContainer) {
	if w.gang.SSHPort() == 22 {
		return
	}
	server := "sshd"
	if w.gang.Launcher.UsesAgent() {
		server = "the agent"
	}
	add := func(field, subject string) {
		r.add(c.path+"."+field, fmt.Sprintf("use port %d", w.gang.SSHPort()),
			"%s waits for port 22, but %s listens on port %d", subject, server, w.gang.SSHPort())
	}
	check := func(field, subject string, exec *corev1.ExecAction, tcp *corev1.TCPSocketAction) {
		switch {
		case tcp != nil && c.resolvePort(tcp.Port.String()) == defaultSSHPort:
			add(field+".tcpSocket.port", subject)
		case exec != nil && connectsToPort22(exec.Command):
			add(field+".exec.command", subject)
		}
	}
	probes := map[string]*corev1.Probe{
		"readinessProbe": c.ReadinessProbe, "livenessProbe": c.LivenessProbe, "startupProbe": c.StartupProbe,
	}
	for name, probe := range probes { // findings are sorted later
		if probe != nil {
			check(name, "the probe", probe.Exec, probe.TCPSocket)
		}
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		check("lifecycle.postStart", "the hook", c.Lifecycle.PostStart.Exec, c.Lifecycle.PostStart.TCPSocket)
	}
}

// resolvePort returns the number of a port that is given as a number or as the name of a port of
// the container.
func (c trainingContainer) resolvePort(port string) string {
	for _, p := range c.Ports {
		if p.Name == port {
			return strconv.Itoa(int(p.ContainerPort))
		}
	}
	return port
}

// port22Pattern matches connections to port 22 of this pod in a script.
var port22Pattern = regexp.MustCompile(`/dev/tcp/[^/\s]+/22\b|\b(nc|ncat|netcat)\b[^;|&]*\s22\b|\bssh\b[^;|&]*-p ?22\b`)

func connectsToPort22(command []string) bool {
	return port22Pattern.MatchString(strings.Join(command, " "))
}

// rshArgsVars are variables with which Open MPI passes options to ssh.
var rshArgsVars = []string{"OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"}

// checkLauncherSSHPort finds ports that commands of a launcher pass to ssh.
func (r *reporter) checkLauncherSSHPort(w *labeledWorkload, c trainingContainer) {
	check := func(field, name, port string) {
		if port != "" && port != strconv.Itoa(int(w.gang.SSHPort())) {
			r.add(field, "remove the port, because the configuration of ssh contains it",
				"%s uses SSH port %s, but sshd of the workers listens on port %d", name, port, w.gang.SSHPort())
		}
	}
	w.visitAssignments(c, rshArgsVars, func(field, name, options string, _ Severity) {
		check(field, name, command.ParseSSHPort(options))
	})
	for _, p := range c.parseCommand().Programs {
		check(c.commandPath(), p.Name, w.launchers.FindSSHPort(p))
	}
}
