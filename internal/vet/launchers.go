package vet

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/command"
)

// programsWithoutSSHD are programs that never start an SSH server. Launchers do not either.
var programsWithoutSSHD = []string{"sleep", "tail", "true"}

func checkWorkerWithoutSSHD(r *reporter, w *labeledWorkload) {
	if !w.gang.HasSSHHosts() || w.gang.Role == gang.RoleLauncher {
		return
	}
	for _, c := range w.trainingContainers() {
		programs := c.parseCommand().Programs
		if !w.setsCommand(c.Name) || len(programs) == 0 {
			continue
		}
		if w.gang.Launcher.UsesAgent() {
			w.checkAgent(r, c, programs)
			continue
		}
		if message := w.explainMissingSSHD(programs); message != "" {
			r.add(c.commandPath(), "remove command and args, so that the worker runs sshd", "%s", message)
		}
	}
}

// checkAgent finds a worker that does not run the agent, although its gang uses the agent instead of ssh.
func (w *labeledWorkload) checkAgent(r *reporter, c trainingContainer, programs []command.Program) {
	mayStartAgent := func(p command.Program) bool {
		_, isSSHD := p.SSHD()
		return !isSSHD && w.mayStartSSHD(p)
	}
	if !slices.ContainsFunc(programs, mayStartAgent) {
		r.add(c.commandPath(), "remove command and args, so that the worker runs the agent",
			"the worker runs %s, but the launcher waits for its agent", programs[len(programs)-1].Name)
	}
}

// explainMissingSSHD returns why the launcher cannot reach a worker that runs the programs. It
// returns an empty string if one of the programs may be an SSH server that the launcher can reach.
func (w *labeledWorkload) explainMissingSSHD(programs []command.Program) string {
	port, last := w.gang.SSHPort(), programs[len(programs)-1]
	if !slices.ContainsFunc(programs, w.mayStartSSHD) {
		return fmt.Sprintf("the worker runs %s, but the launcher waits for its sshd", last.Name)
	}
	wanted := command.SSHD{Config: sshdConfigPath, Port: strconv.Itoa(int(port))}
	for i, p := range programs {
		sshd, _ := p.SSHD()
		option := ""
		switch {
		case sshd.Config != "" && sshd.Config != wanted.Config:
			option = "-f " + sshd.Config
		case sshd.Port != "" && sshd.Port != wanted.Port:
			option = "-p " + sshd.Port
		}
		if option != "" {
			return fmt.Sprintf("sshd runs with %s, but the launcher expects the sshd_config of Rollcall with port %d",
				option, port)
		}
		if sshd.InBackground && i == len(programs)-1 {
			return fmt.Sprintf("%s starts sshd in the background and is the last program, so the container exits", p.Name)
		}
	}
	return ""
}

// sshdConfigPath is the file that Rollcall mounts, and that sshd reads by default.
const sshdConfigPath = "/etc/ssh/sshd_config"

// setsCommand reports whether the container has a command in the input. Admission adds one to the
// containers of workers without a command.
func (w *labeledWorkload) setsCommand(container string) bool {
	return slices.ContainsFunc(w.workload.Template().Spec.Containers, func(c corev1.Container) bool {
		return c.Name == container && len(c.Command) > 0
	})
}

// mayStartSSHD reports whether the program could be or start an SSH server. A script that a shell
// sources could.
func (w *labeledWorkload) mayStartSSHD(p command.Program) bool {
	python, _ := p.Python()
	runsPythonScript := strings.HasSuffix(python.Script, ".py")
	_, isLaunch := w.launchers.Find(p)
	sourcesScript := p.Name == "source" || p.Name == "."
	isAuxiliary := slices.Contains(auxiliaryPrograms, p.Name) && !sourcesScript
	return !slices.Contains(programsWithoutSSHD, p.Name) && !isLaunch && !runsPythonScript && !isAuxiliary
}

func checkTooManyProcesses(r *reporter, w *labeledWorkload) {
	hosts, slots := w.countSlots()
	if slots == 0 {
		return
	}
	for _, c := range w.trainingContainers() {
		for _, l := range w.launchers.FindAll(c.parseCommand()) {
			if processes, ok := countProcesses(l, w.gang.Launcher.MPI); ok && processes > slots {
				r.add(c.commandPath(), fmt.Sprintf("start %d processes, or raise %s", slots, gang.AnnotationSlotsPerWorker),
					"%s starts %d processes, but %d hosts with %d slots each have only %d slots",
					l.Called, processes, hosts, w.gang.Launcher.SlotsPerWorker, slots)
			}
		}
	}
}

// checkIdleSlots reports a command whose only launcher starts fewer processes than there are slots. Several launchers
// can run at the same time, and the user can place the processes on purpose.
func checkIdleSlots(r *reporter, w *labeledWorkload) {
	hosts, slots := w.countSlots()
	for _, c := range w.trainingContainers() {
		parsed := c.parseCommand()
		launches := w.launchers.FindAll(parsed)
		if slots == 0 || len(launches) != 1 || parsed.MayRepeat || parsed.MayBranch {
			continue
		}
		l := launches[0]
		processes, ok := countProcesses(l, w.gang.Launcher.MPI)
		if ok && processes < slots && !placesProcesses(l) {
			r.add(c.commandPath(), fmt.Sprintf("start %d processes, or lower %s", slots, gang.AnnotationSlotsPerWorker),
				"%s starts %d processes, so %d of %d slots of %d hosts stay idle",
				l.Called, processes, slots-processes, slots, hosts)
		}
	}
}

// placesProcesses reports whether a call has options for the processes of each host, or a part for other processes.
func placesProcesses(l command.Launch) bool {
	flags, _ := l.Flags()
	for name := range strings.FieldsSeq(l.HostProcessFlags + " N") {
		if _, ok := flags[name]; ok {
			return true
		}
	}
	return slices.ContainsFunc(l.Args, func(a command.Argument) bool { return a.Text == ":" })
}

// countSlots returns the number of hosts and of slots for the launcher of a gang of fixed size; 0 for other workloads.
func (w *labeledWorkload) countSlots() (hosts, slots int64) {
	if !w.gang.Framework.HasLauncher || w.gang.Role != gang.RoleLauncher || w.gang.Elastic != nil {
		return 0, 0
	}
	for _, m := range w.gang.Members {
		if m.Role != gang.RoleLauncher || w.gang.Launcher.RunAsWorker {
			hosts += int64(m.Size)
		}
	}
	return hosts, hosts * w.gang.Launcher.SlotsPerWorker
}

// countProcesses returns the number of processes that a launcher starts. It returns false if the
// number is unknown, or if the launcher does not respect the slots of the injected hostfile.
func countProcesses(l command.Launch, mpi gang.MPIImplementation) (int64, bool) {
	flags, complete := l.Flags()
	if !complete || !respectsSlots(l, mpi, flags) {
		return 0, false
	}
	for name := range strings.FieldsSeq(l.ProcessFlags) {
		if count, err := strconv.ParseInt(flags[name].Text, 10, 32); err == nil {
			return count, count > 0
		}
	}
	return 0, false
}

// respectsSlots reports whether a launcher uses the injected hostfile and never starts more
// processes than its slots.
func respectsSlots(l command.Launch, mpi gang.MPIImplementation, flags map[string]command.Argument) bool {
	hosts, setsHosts := flags["hostfile"]
	mapBy, setsMapBy := flags["map-by"]
	switch {
	case setsMapBy && (!mapBy.Known || strings.Contains(strings.ToLower(mapBy.Text), "oversubscribe")):
		return false
	case l.HostFlags != "":
		return hosts.Text == hostfile.Path // It reads no hostfile by default.
	}
	return mpi == gang.OpenMPI && !setsHosts // Hydra continues with the first host when all slots are used.
}

func checkLauncherWithoutHosts(r *reporter, w *labeledWorkload) {
	if !w.hasMultiplePods() {
		return
	}
	for _, c := range w.trainingContainers() {
		for _, l := range w.launchers.FindAll(c.parseCommand()) {
			switch {
			case l.HostFlags == "" || slices.ContainsFunc(l.Args, func(a command.Argument) bool { return maySetHosts(l, a) }):
			case w.gang.UsesTorchrunVars():
				r.add(c.commandPath(), "use torchrun, or add a workload with the role launcher",
					"%s uses only its own host, so each of the %d pods trains separately", l.Name, w.gang.Size)
			case l.ProcessFlags != "" && w.gang.HasSSHHosts() && w.gang.Role == gang.RoleLauncher:
				r.add(c.commandPath(), "add --hostfile "+hostfile.Path,
					"%s has no hosts, so all processes run in the pod of the launcher", l.Name)
			}
		}
	}
}

// maySetHosts reports whether the argument is an option for hosts, or is unknown.
func maySetHosts(l command.Launch, a command.Argument) bool {
	name, _, _ := command.SplitFlag(a.Text)
	return !a.Known || strings.HasPrefix(a.Text, "-") && command.ContainsFlag(l.HostFlags, name)
}

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
