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
	"rollcall.training/internal/command"
)

// programsWithoutSSHD are programs that never start an SSH server. Launchers do not either.
var programsWithoutSSHD = []string{"sleep", "tail", "true"}

// hasSSHHosts reports whether the launcher of the gang reaches the workers over SSH.
func (w *labeledWorkload) hasSSHHosts() bool {
	return w.gang.Framework.HasLauncher && len(w.gang.Members) > 1
}

func checkWorkerWithoutSSHD(r *reporter, w *labeledWorkload) {
	if !w.hasSSHHosts() || w.gang.Role == gang.RoleLauncher {
		return
	}
	for _, c := range w.trainingContainers() {
		programs := c.parseCommand().Programs
		if !w.setsCommand(c.Name) || len(programs) == 0 {
			continue
		}
		if message := explainMissingSSHD(programs, w.sshPort()); message != "" {
			r.add(c.commandPath(), "remove command and args, so that the worker runs sshd", "%s", message)
		}
	}
}

// explainMissingSSHD returns why the launcher cannot reach a worker that runs the programs. It
// returns an empty string if one of the programs may be an SSH server that the launcher can reach.
func explainMissingSSHD(programs []command.Program, port int32) string {
	last := programs[len(programs)-1]
	if !slices.ContainsFunc(programs, mayStartSSHD) {
		return fmt.Sprintf("the worker runs %s, but the launcher waits for its sshd", last.Name)
	}
	for _, p := range programs {
		if option, ok := findSSHDConflict(p, port); ok {
			return fmt.Sprintf("sshd runs with %s, but the launcher expects the sshd_config of Rollcall with port %d",
				option, port)
		}
	}
	if startsSSHDInBackground(last) {
		return fmt.Sprintf("%s starts sshd in the background and is the last program, so the container exits", last.Name)
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
func parseSSHD(p command.Program) (map[byte]command.Argument, bool) {
	if p.Name != "sshd" {
		return nil, false
	}
	options := map[byte]command.Argument{}
	for i := 0; i < len(p.Args); i++ {
		letters, isOption := strings.CutPrefix(p.Args[i].Text, "-")
		for isOption && letters != "" {
			letter, rest := letters[0], letters[1:]
			letters = rest
			switch {
			case !strings.ContainsRune(sshdOptionsWithValue, rune(letter)):
				options[letter] = command.Argument{Known: true}
			case rest != "":
				options[letter] = command.Argument{Text: rest, Known: p.Args[i].Known}
				letters = ""
			case i+1 < len(p.Args):
				i++
				options[letter] = p.Args[i]
			}
		}
	}
	return options, true
}

// sshdConfigPath is the file that Rollcall mounts, and that sshd reads by default.
const sshdConfigPath = "/etc/ssh/sshd_config"

// findSSHDConflict returns the option with which sshd does not listen on the given port with
// the keys of the gang.
func findSSHDConflict(p command.Program, port int32) (string, bool) {
	options, _ := parseSSHD(p)
	if file, ok := options['f']; ok && file.Known && file.Text != sshdConfigPath {
		return "-f " + file.Text, true
	}
	value, ok := options['p']
	return "-p " + value.Text, ok && value.Known && value.Text != strconv.Itoa(int(port))
}

// startsSSHDInBackground reports whether the program starts an SSH server and exits.
func startsSSHDInBackground(p command.Program) bool {
	if options, ok := parseSSHD(p); ok {
		for _, letter := range []byte("Ddit") {
			if _, staysInForeground := options[letter]; staysInForeground {
				return false
			}
		}
		return !slices.ContainsFunc(p.Args, func(a command.Argument) bool { return !a.Known })
	}
	words := []string{p.Name}
	for _, a := range p.Args {
		words = append(words, a.Text)
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
func mayStartSSHD(p command.Program) bool {
	python, _ := p.Python()
	runsPythonScript := strings.HasSuffix(python.Script, ".py")
	_, isLaunch := p.Launch()
	sourcesScript := p.Name == "source" || p.Name == "."
	isAuxiliary := slices.Contains(auxiliaryPrograms, p.Name) && !sourcesScript
	return !slices.Contains(programsWithoutSSHD, p.Name) && !isLaunch && !runsPythonScript && !isAuxiliary
}

func checkTooManyProcesses(r *reporter, w *labeledWorkload) {
	if !w.gang.Framework.HasLauncher || w.gang.Role != gang.RoleLauncher || w.gang.Elastic != nil {
		return
	}
	hosts := int64(0)
	for _, m := range w.gang.Members {
		if m.Role != gang.RoleLauncher || w.gang.Launcher.RunAsWorker {
			hosts += int64(m.Size)
		}
	}
	slots := hosts * w.gang.Launcher.SlotsPerWorker
	for _, c := range w.trainingContainers() {
		for _, l := range c.parseCommand().Launches() {
			if processes, ok := countProcesses(l, w.gang.Launcher.MPI); ok && processes > slots {
				r.add(c.commandPath(), fmt.Sprintf("start %d processes, or raise %s", slots, gang.AnnotationSlotsPerWorker),
					"%s starts %d processes, but %d hosts with %d slots each have only %d slots",
					l.Program, processes, hosts, w.gang.Launcher.SlotsPerWorker, slots)
			}
		}
	}
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
func parseOptions(l command.Launch) (map[string]string, bool) {
	options := map[string]string{}
	for i := 0; i < len(l.Args) && strings.HasPrefix(l.Args[i].Text, "-"); i++ {
		name, value, hasInlineValue := strings.Cut(strings.TrimLeft(l.Args[i].Text, "-"), "=")
		arity, ok := optionArity[name]
		if !l.Args[i].Known || !ok {
			return nil, false
		}
		if !hasInlineValue && arity > 0 && i+arity < len(l.Args) {
			value = l.Args[i+1].Text
			i += arity
		}
		options[name] = value
	}
	return options, true
}

// countProcesses returns the number of processes that a launcher starts. It returns false if the
// number is unknown, or if the launcher does not respect the slots of the injected hostfile.
func countProcesses(l command.Launch, mpi gang.MPIImplementation) (int64, bool) {
	options, ok := parseOptions(l)
	if !ok || !respectsSlots(l, mpi, options) {
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
func respectsSlots(l command.Launch, mpi gang.MPIImplementation, options map[string]string) bool {
	hosts, setsHosts := options["hostfile"]
	switch {
	case strings.Contains(strings.ToLower(options["map-by"]), "oversubscribe"):
		return false
	case l.Launcher == command.Horovodrun:
		return hosts == hostfile.Path // horovodrun reads no hostfile by default.
	case l.Launcher == command.Mpirun:
		return mpi == gang.OpenMPI && !setsHosts // Hydra continues with the first host when all slots are used.
	}
	return false
}
