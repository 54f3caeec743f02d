package vet

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
)

func ofLaunchers() []Check {
	return []Check{
		{
			Code: CodeWorkerWithoutSSHD, Severity: Warning, gang: workerWithoutSSHD,
			Title: "The command of a worker starts no sshd",
			Why:   "The launcher starts processes in the workers by ssh, and waits until all of them answer. A worker without a command is given one that runs sshd; one that sleeps, or runs the training itself, never answers.",
			Fix:   "Remove `command` and `args` of the worker.",
		},
		{
			Code: CodeTooManyProcesses, Severity: Warning, gang: tooManyProcesses,
			Title: "The launcher is told to start more processes than there are slots",
			Why:   "Open MPI and horovodrun refuse to start more processes than the hostfile has slots (\"There are not enough slots available\"; horovod, runner/common/util/hosts.py).",
			Fix:   "Make the number that follows `-np` the pods of the workers times `" + gang.AnnotationSlots + "`, or leave it out: mpirun then fills all slots.",
		},
		{
			Code: CodeHorovodWithoutHosts, Severity: Warning, gang: horovodWithoutHosts,
			Title: "horovodrun is not told the hosts",
			Why:   "Unlike mpirun it reads no variable for its hostfile, and takes localhost when no hosts are named (horovod, runner/launch.py): all processes run in the launcher's pod, and the workers idle.",
			Fix:   "Add `--hostfile " + hostfile.Path + "`; for an elastic gang, `--host-discovery-script /etc/mpi/discover_hosts.sh`.",
		},
	}
}

// noServer are programs that run no ssh server, whatever their arguments.
var noServer = []string{"sleep", "tail", "torchrun", "mpirun", "mpiexec", "horovodrun", "deepspeed", "true"}

func workerWithoutSSHD(_ *input, m *member) []remark {
	if !m.gang.Framework.Launches || len(m.gang.Members) < 2 || m.gang.Role == gang.RoleLauncher {
		return nil
	}
	var out []remark
	for _, c := range m.trainers() {
		written := slices.IndexFunc(m.written.Template().Spec.Containers, func(w corev1.Container) bool { return w.Name == c.Name && len(w.Command) > 0 })
		programs := c.command().programs
		if written < 0 || len(programs) == 0 {
			continue
		}
		if !slices.ContainsFunc(programs, func(p program) bool { return !isNoServer(p) }) {
			out = append(out, say(c.path+".command", "the worker runs %s, and the launcher waits for its sshd", programs[len(programs)-1].name).
				do("remove command and args; it then runs sshd")...)
		}
	}
	return out
}

func isNoServer(p program) bool {
	_, script, _, python := p.python()
	return slices.Contains(noServer, p.name) || python && strings.HasSuffix(script, ".py") || slices.Contains(harmless, p.name) && p.name != "source" && p.name != "."
}

func tooManyProcesses(_ *input, m *member) []remark {
	if !m.gang.Framework.Launches || m.gang.Role != gang.RoleLauncher || m.gang.Elastic != nil {
		return nil
	}
	hosts := int64(0)
	for _, o := range m.gang.Members {
		if o.Role != gang.RoleLauncher || m.gang.Launch.Self {
			hosts += int64(o.Size)
		}
	}
	slots := hosts * m.gang.Launch.Slots
	var out []remark
	for _, c := range m.trainers() {
		for _, p := range c.command().programs {
			if n, ok := p.processes(m.gang.Launch.MPI); ok && n > slots {
				out = append(out, say(c.path+".command", "%s shall start %d processes, and %d hosts with %d slots each have room for %d", p.name, n, hosts, m.gang.Launch.Slots, slots).
					do("start %d, or raise %s", slots, gang.AnnotationSlots)...)
			}
		}
	}
	return out
}

// arity is the number of words that follow an option of mpirun or horovodrun. An option
// that is not here makes the rest of the line unknown.
var arity = map[string]int{
	"np": 1, "n": 1, "c": 1, "num-proc": 1,
	"mca": 2, "x": 1, "bind-to": 1, "map-by": 1, "rank-by": 1, "N": 1, "npernode": 1, "ppr": 1, "wdir": 1, "wd": 1, "prefix": 1, "output": 1,
	"allow-run-as-root": 0, "tag-output": 0, "timestamp-output": 0, "report-bindings": 0, "display-map": 0, "display-allocation": 0, "q": 0, "v": 0, "verbose": 0,
	"p": 1, "ssh-port": 1, "network-interfaces": 1, "start-timeout": 1, "gloo": 0, "mpi": 0, "disable-cache": 0, "hostfile": 1, "mpi-args": 1,
}

// options are those of mpirun or horovodrun, by their names without dashes. It is false
// where one of them is not known, or holds a variable.
func (p program) options() (map[string]string, bool) {
	out := map[string]string{}
	for i := 0; i < len(p.args) && strings.HasPrefix(p.args[i].text, "-"); i++ {
		name, value, inline := strings.Cut(strings.TrimLeft(p.args[i].text, "-"), "=")
		n, ok := arity[name]
		if !p.args[i].known || !ok {
			return nil, false
		}
		if !inline && n > 0 && i+n < len(p.args) {
			value = p.args[i+1].text
			i += n
		}
		out[name] = value
	}
	return out, true
}

// processes is the number that a launcher is told to start, where it holds to the slots
// of the injected hostfile. It is false where that cannot be told.
func (p program) processes(mpi gang.MPI) (int64, bool) {
	options, ok := p.options()
	hosts, named := options["hostfile"]
	switch {
	case !ok || strings.Contains(strings.ToLower(options["map-by"]), "oversubscribe"):
		return 0, false
	case p.name == "horovodrun":
		ok = hosts == hostfile.Path // which it has to be told
	case p.name == "mpirun" || p.name == "mpiexec":
		ok = mpi == gang.OpenMPI && !named // Hydra begins again with the first host
	default:
		ok = false
	}
	for _, name := range []string{"np", "n", "c", "num-proc"} {
		if n, err := strconv.ParseInt(options[name], 10, 32); ok && err == nil {
			return n, n > 0
		}
	}
	return 0, false
}

// hostOptions are those by which horovodrun learns its hosts.
var hostOptions = []string{"H", "hosts", "hostfile", "host-discovery-script", "config-file", "cb", "check-build", "h", "help"}

func horovodWithoutHosts(_ *input, m *member) []remark {
	if m.gang.Role != gang.RoleLauncher || len(m.gang.Members) < 2 {
		return nil
	}
	var out []remark
	for _, c := range m.trainers() {
		for _, p := range c.command().programs {
			if p.name != "horovodrun" || slices.ContainsFunc(p.args, func(a word) bool {
				name, _, _ := strings.Cut(strings.TrimLeft(a.text, "-"), "=")
				return !a.known || strings.HasPrefix(a.text, "-") && slices.Contains(hostOptions, name)
			}) {
				continue
			}
			out = append(out, say(c.path+".command", "horovodrun is told no hosts, and starts all processes in the launcher's own pod").
				do("add --hostfile %s", hostfile.Path)...)
		}
	}
	return out
}
