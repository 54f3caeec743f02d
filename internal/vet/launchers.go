package vet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/ssh"
)

func launcherChecks() []Check {
	return []Check{
		{
			Code: CodeWorkerWithoutSSHD, Severity: Warning, checkGang: checkWorkerWithoutSSHD,
			Title: "The command of a worker does not start sshd as Rollcall expects",
			Why: "The launcher starts processes in the workers over SSH, and waits until all workers respond. " +
				"Rollcall injects a command that runs sshd into a worker without a command. " +
				"A worker that sleeps, or that runs the training itself, never responds. " +
				"Rollcall also mounts `/etc/ssh/sshd_config`, which sets the port and the keys. " +
				"An sshd with a different file (`-f`) or a different port (`-p`) does not respond there. " +
				"If sshd runs in the background at the end of the command, the container exits.",
			Fix: "Remove `command` and `args` of the worker. If you need the command, end it with `exec /usr/sbin/sshd -De`.",
		},
		{
			Code: CodeSSHPortMismatch, Severity: Warning, checkGang: checkSSHPort,
			Title: "A probe or a command uses an SSH port without a server",
			Why: "sshd of Rollcall listens on port 2222 by default, because port 22 needs a capability. " +
				"A probe or a hook that connects to another port never succeeds, so the worker is never ready. " +
				"The injected configuration of ssh contains the port, but a port in the command overrides it.",
			Fix: "Remove the port from commands of the launcher. Change probes and hooks to the port of Rollcall.",
		},
		{
			Code: CodeTooManyProcesses, Severity: Warning, checkGang: checkTooManyProcesses,
			Title: "The launcher starts more processes than there are slots",
			Why: "Open MPI and horovodrun do not start more processes than the hostfile has slots. " +
				"Open MPI fails with \"There are not enough slots available\". " +
				"The check of horovodrun is in runner/common/util/hosts.py of Horovod.",
			Fix: "Set `-np` to the number of worker pods times `" + gang.AnnotationSlotsPerWorker + "`. " +
				"Or omit it, and mpirun uses all slots.",
		},
		{
			Code: CodeHorovodWithoutHosts, Severity: Warning, checkGang: checkHorovodWithoutHosts,
			Title: "horovodrun has no hosts",
			Why: "Unlike mpirun, horovodrun reads no variable for its hostfile. Without hosts it uses localhost " +
				"(runner/launch.py of Horovod). All processes then run in the pod of the launcher, and the workers are idle.",
			Fix: "Add `--hostfile " + hostfile.Path + "`. " +
				"For an elastic gang, add `--host-discovery-script /etc/mpi/discover_hosts.sh`.",
		},
		{
			Code: CodeDeepSpeedWithoutHosts, Severity: Warning, checkGang: checkDeepSpeedWithoutHosts,
			Title: "The deepspeed launcher runs in each pod of a gang without a launcher",
			Why: "Without a hostfile, the program `deepspeed` starts processes on its own host only " +
				"(deepspeed/launcher/runner.py), and overrides the injected variables. Each pod then trains separately.",
			Fix: "Start the program with `torchrun`. Or use the framework deepspeed with the roles launcher and worker.",
		},
	}
}

// programsWithoutSSHD are programs that never start an SSH server.
var programsWithoutSSHD = slices.Concat(launcherPrograms, []string{"sleep", "tail", "true"})

// hasSSHHosts reports whether the launcher of the gang reaches the workers over SSH.
func (w *labeledWorkload) hasSSHHosts() bool {
	return w.gang.Framework.HasLauncher && len(w.gang.Members) > 1
}

func checkWorkerWithoutSSHD(_ *input, w *labeledWorkload) []issue {
	if !w.hasSSHHosts() || w.gang.Role == gang.RoleLauncher {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		programs := c.parseCommand().programs
		if !w.setsCommand(c.Name) || len(programs) == 0 {
			continue
		}
		if message := explainMissingSSHD(programs, w.sshPort()); message != "" {
			issues = append(issues, issue{
				field:   c.commandPath(),
				message: message,
				fix:     "remove command and args, so that the worker runs sshd",
			})
		}
	}
	return issues
}

// explainMissingSSHD returns why the launcher cannot reach a worker that runs the programs. It
// returns an empty string if one of the programs may be an SSH server that the launcher can reach.
func explainMissingSSHD(programs []program, port int32) string {
	last := programs[len(programs)-1]
	if !slices.ContainsFunc(programs, program.mayStartSSHD) {
		return fmt.Sprintf("the worker runs %s, but the launcher waits for its sshd", last.name)
	}
	for _, p := range programs {
		if option, ok := p.conflictingSSHDOption(port); ok {
			return fmt.Sprintf("sshd runs with %s, but the launcher expects the sshd_config of Rollcall with port %d",
				option, port)
		}
	}
	if last.startsSSHDInBackground() {
		return fmt.Sprintf("%s starts sshd in the background and is the last program, so the container exits", last.name)
	}
	return ""
}

// sshPort is the port on which the workers serve SSH.
func (w *labeledWorkload) sshPort() int32 {
	if w.gang.Framework.Name == "deepspeed" {
		return ssh.Port // The port of the gang is the rendezvous port of torch.
	}
	return w.gang.Port
}

// sshdOptionsWithValue are the letters of the options of sshd with a value (sshd(8)).
const sshdOptionsWithValue = "CEbcfghkopu"

// parseSSHD returns the options of sshd by letter. The value of an option without a value is empty.
// It returns false for other programs.
func (p program) parseSSHD() (map[byte]argument, bool) {
	if p.name != "sshd" {
		return nil, false
	}
	options := map[byte]argument{}
	for i := 0; i < len(p.args); i++ {
		letters, isOption := strings.CutPrefix(p.args[i].text, "-")
		for isOption && letters != "" {
			letter, rest := letters[0], letters[1:]
			letters = rest
			switch {
			case !strings.ContainsRune(sshdOptionsWithValue, rune(letter)):
				options[letter] = argument{known: true}
			case rest != "":
				options[letter] = argument{text: rest, known: p.args[i].known}
				letters = ""
			case i+1 < len(p.args):
				i++
				options[letter] = p.args[i]
			}
		}
	}
	return options, true
}

// sshdConfigPath is the file that Rollcall mounts, and that sshd reads by default.
const sshdConfigPath = "/etc/ssh/sshd_config"

// conflictingSSHDOption returns the option with which sshd does not listen on the given port with
// the keys of the gang.
func (p program) conflictingSSHDOption(port int32) (string, bool) {
	options, _ := p.parseSSHD()
	if file, ok := options['f']; ok && file.known && file.text != sshdConfigPath {
		return "-f " + file.text, true
	}
	value, ok := options['p']
	return "-p " + value.text, ok && value.known && value.text != strconv.Itoa(int(port))
}

// startsSSHDInBackground reports whether the program starts an SSH server and exits.
func (p program) startsSSHDInBackground() bool {
	if options, ok := p.parseSSHD(); ok {
		for _, letter := range []byte("Ddit") {
			if _, staysInForeground := options[letter]; staysInForeground {
				return false
			}
		}
		return !slices.ContainsFunc(p.args, func(a argument) bool { return !a.known })
	}
	words := []string{p.name}
	for _, a := range p.args {
		words = append(words, a.text)
	}
	switch strings.Join(words, " ") {
	case "service ssh start", "service sshd start", "ssh start", "systemctl start ssh", "systemctl start sshd":
		return true // "ssh start" is /etc/init.d/ssh start.
	}
	return false
}

// setsCommand reports whether the container has a command in the input. Admission adds one to the
// containers of workers without a command.
func (w *labeledWorkload) setsCommand(container string) bool {
	return slices.ContainsFunc(w.workload.Template().Spec.Containers, func(c corev1.Container) bool {
		return c.Name == container && len(c.Command) > 0
	})
}

// mayStartSSHD reports whether the program could be or start an SSH server. A script that a shell
// sources could.
func (p program) mayStartSSHD() bool {
	_, script, _, isPython := p.parsePython()
	runsPythonScript := isPython && strings.HasSuffix(script, ".py")
	sourcesScript := p.name == "source" || p.name == "."
	isAuxiliary := slices.Contains(auxiliaryPrograms, p.name) && !sourcesScript
	return !slices.Contains(programsWithoutSSHD, p.name) && !runsPythonScript && !isAuxiliary
}

func checkTooManyProcesses(_ *input, w *labeledWorkload) []issue {
	if !w.gang.Framework.HasLauncher || w.gang.Role != gang.RoleLauncher || w.gang.Elastic != nil {
		return nil
	}
	hosts := int64(0)
	for _, m := range w.gang.Members {
		if m.Role != gang.RoleLauncher || w.gang.Launcher.RunAsWorker {
			hosts += int64(m.Size)
		}
	}
	slots := hosts * w.gang.Launcher.SlotsPerWorker
	var issues []issue
	for _, c := range w.trainingContainers() {
		for _, p := range c.parseCommand().programs {
			if processes, ok := p.processCount(w.gang.Launcher.MPI); ok && processes > slots {
				issues = append(issues, issue{
					field: c.commandPath(),
					message: fmt.Sprintf("%s starts %d processes, but %d hosts with %d slots each have only %d slots",
						p.name, processes, hosts, w.gang.Launcher.SlotsPerWorker, slots),
					fix: fmt.Sprintf("start %d processes, or raise %s", slots, gang.AnnotationSlotsPerWorker),
				})
			}
		}
	}
	return issues
}

// optionArity is the number of words that follow an option of mpirun or horovodrun. The rest of a
// command line after an option that is not listed cannot be parsed.
var optionArity = map[string]int{
	"np": 1, "n": 1, "c": 1, "num-proc": 1,
	"mca": 2, "x": 1, "bind-to": 1, "map-by": 1, "rank-by": 1, "N": 1, "npernode": 1, "ppr": 1, "wdir": 1, "wd": 1,
	"prefix": 1, "output": 1, "allow-run-as-root": 0, "tag-output": 0, "timestamp-output": 0, "report-bindings": 0,
	"display-map": 0, "display-allocation": 0, "q": 0, "v": 0, "verbose": 0,
	"p": 1, "ssh-port": 1, "network-interfaces": 1, "start-timeout": 1, "gloo": 0, "mpi": 0, "disable-cache": 0,
	"hostfile": 1, "mpi-args": 1,
}

// parseOptions returns the options of mpirun or horovodrun by name without dashes. It returns false
// if an option is unknown or contains a variable.
func (p program) parseOptions() (map[string]string, bool) {
	options := map[string]string{}
	for i := 0; i < len(p.args) && strings.HasPrefix(p.args[i].text, "-"); i++ {
		name, value, hasInlineValue := strings.Cut(strings.TrimLeft(p.args[i].text, "-"), "=")
		arity, ok := optionArity[name]
		if !p.args[i].known || !ok {
			return nil, false
		}
		if !hasInlineValue && arity > 0 && i+arity < len(p.args) {
			value = p.args[i+1].text
			i += arity
		}
		options[name] = value
	}
	return options, true
}

// processCount returns the number of processes that a launcher starts. It returns false if the
// number is unknown, or if the launcher does not respect the slots of the injected hostfile.
func (p program) processCount(mpi gang.MPIImplementation) (int64, bool) {
	options, ok := p.parseOptions()
	if !ok || !p.respectsSlots(mpi, options) {
		return 0, false
	}
	for _, name := range []string{"np", "n", "c", "num-proc"} {
		if count, err := strconv.ParseInt(options[name], 10, 32); err == nil {
			return count, count > 0
		}
	}
	return 0, false
}

// respectsSlots reports whether a launcher uses the injected hostfile and never starts more
// processes than its slots.
func (p program) respectsSlots(mpi gang.MPIImplementation, options map[string]string) bool {
	hosts, setsHosts := options["hostfile"]
	switch {
	case strings.Contains(strings.ToLower(options["map-by"]), "oversubscribe"):
		return false
	case p.name == "horovodrun":
		return hosts == hostfile.Path // horovodrun reads no hostfile by default.
	case p.name == "mpirun" || p.name == "mpiexec":
		return mpi == gang.OpenMPI && !setsHosts // Hydra continues with the first host when all slots are used.
	}
	return false
}

// horovodHostOptions are the options with which horovodrun gets its hosts or does not need any.
var horovodHostOptions = []string{
	"H", "hosts", "hostfile", "host-discovery-script", "config-file", "cb", "check-build", "h", "help",
}

func checkHorovodWithoutHosts(_ *input, w *labeledWorkload) []issue {
	if !w.hasSSHHosts() || w.gang.Role != gang.RoleLauncher {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		for _, p := range c.parseCommand().programs {
			if p.name != "horovodrun" || slices.ContainsFunc(p.args, argument.maySetHorovodHosts) {
				continue
			}
			issues = append(issues, issue{
				field:   c.commandPath(),
				message: "horovodrun has no hosts, so all processes run in the pod of the launcher",
				fix:     "add --hostfile " + hostfile.Path,
			})
		}
	}
	return issues
}

// maySetHorovodHosts reports whether the argument is an option for hosts, or is unknown.
func (a argument) maySetHorovodHosts() bool {
	name, _, _ := strings.Cut(strings.TrimLeft(a.text, "-"), "=")
	return !a.known || strings.HasPrefix(a.text, "-") && slices.Contains(horovodHostOptions, name)
}

// deepSpeedHostOptions are the options with which deepspeed does not use only its own host.
var deepSpeedHostOptions = []string{"H", "hostfile", "no-ssh", "node-rank", "launcher", "h", "help", "autotuning"}

func checkDeepSpeedWithoutHosts(_ *input, w *labeledWorkload) []issue {
	if !w.usesTorchrunVars() || !w.hasMultiplePods() {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		for _, p := range c.parseCommand().programs {
			if p.name != "deepspeed" || slices.ContainsFunc(p.args, argument.maySetDeepSpeedHosts) {
				continue
			}
			issues = append(issues, issue{
				field:   c.commandPath(),
				message: fmt.Sprintf("deepspeed uses only its own host, so each of the %d pods trains separately", w.gang.Size),
				fix:     "use torchrun, or add a workload with the role launcher",
			})
		}
	}
	return issues
}

// maySetDeepSpeedHosts reports whether the argument is an option for hosts, or is unknown.
func (a argument) maySetDeepSpeedHosts() bool {
	name, _, _ := strings.Cut(strings.TrimLeft(a.text, "-"), "=")
	isHostOption := slices.Contains(deepSpeedHostOptions, strings.ReplaceAll(name, "_", "-"))
	return !a.known || strings.HasPrefix(a.text, "-") && isHostOption
}
