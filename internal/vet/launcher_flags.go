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

func checkLauncherFlagConflict(r *reporter, w *labeledWorkload) {
	if !w.gang.UsesTorchrunVars() {
		return
	}
	for _, c := range w.trainingContainers() {
		parsed := c.parseCommand()
		for _, p := range parsed.Programs {
			f := flagChecker{reporter: r, gang: w.gang, container: c.parsed, env: c.Env, parsed: parsed, field: c.commandPath()}
			f.severity = severityOfFlag(parsed)
			f.checkTrainerNodes(p)
			if l, ok := w.launchers.Find(p); ok {
				f.checkLaunch(l)
			}
		}
	}
}

// flagChecker finds the flags of one call of a launcher that contradict the gang or the container.
type flagChecker struct {
	reporter  *reporter
	gang      *gang.Gang
	container gang.Container
	env       []corev1.EnvVar
	parsed    command.Command
	flags     map[string]command.Argument
	// complete is false if the command contains flags that are unknown.
	complete bool
	// field is the path of the command.
	field string
	// severity is the severity of flags with which the ranks cannot find each other.
	severity Severity
}

func (f *flagChecker) add(fix, format string, args ...any) {
	f.reporter.add(f.field, fix, format, args...)
}

// flag returns the value of a flag; false if it is absent.
func (f *flagChecker) flag(name string) (command.Argument, bool) {
	value, ok := f.flags[strings.ReplaceAll(name, "_", "-")]
	return value, ok
}

// number returns the value of a flag. It returns false if the flag is absent or no known number.
func (f *flagChecker) number(name string) (int64, bool) {
	value, _ := f.flag(name)
	n, err := strconv.ParseInt(value.Text, 10, 32)
	return n, err == nil && value.Known
}

func (f *flagChecker) has(name string) bool {
	_, ok := f.flag(name)
	return ok
}

const removeFlag = "remove the flag, because Rollcall configures the launcher with variables"

func (f *flagChecker) checkLaunch(l command.Launch) {
	f.flags, f.complete = l.Flags()
	fix, assignsRanks := "use --"+l.RankFlag+"=$(ROLLCALL_RANK)", false
	switch {
	case l.ReadsVariables:
		f.checkConfigured(l)
		fix, assignsRanks = removeFlag, f.gang.Elastic != nil // The injected backend of an elastic gang is c10d.
	case l.NodesFlag != "":
		f.checkMachines(l)
	}
	if l.RankFlag != "" && !assignsRanks {
		f.checkRank(l.RankFlag, fix)
	}
}

// checkRank reports a flag for the rank of a node that has the same number in all pods, or that is not
// the rank of the only pod of the workload. The leader of a JobSet, for example, may have --node_rank=0.
// All rendezvous backends but static assign the ranks themselves.
func (f *flagChecker) checkRank(name, fix string) {
	backend, setsBackend := f.flags["rdzv-backend"]
	assignsRanks := setsBackend && backend.Text != "static"
	rank, ok := f.number(name)
	if f.gang.Size == 1 || assignsRanks {
		return
	}
	if !ok {
		f.checkRankName(name, fix)
		return
	}
	switch pods := f.gang.OwnMember().Size; {
	case pods > 1:
		f.reporter.addWithSeverity(f.severity, f.field, fix,
			"--%s=%d is the same in all %d pods of the workload", name, rank, pods)
	case rank != int64(f.gang.RankOffset):
		f.add(fix, "--%s=%d, but the rank of the pod is %d", name, rank, f.gang.RankOffset)
	}
}

// checkRankName reports a flag for the rank whose value is a text or the name of the pod.
func (f *flagChecker) checkRankName(name, fix string) {
	value, _ := f.flag(name)
	isName, text := value.Known && value.Text != "", value.Text
	if variable := value.Variable; variable != "" && !f.parsed.Assigns(variable) {
		// The kubelet sets HOSTNAME to the hostname of the pod, unless the container sets it.
		isName, text = variable == "HOSTNAME" && findEnv(f.env, variable) == nil, "$"+variable
		value.Text += "$(" + variable + ")"
	}
	for _, e := range f.env {
		_, isLiteral := literalValue(e)
		_, err := strconv.Atoi(e.Value)
		if value.Text == "$("+e.Name+")" && (isLiteral && err != nil || isPodName(f.env, e)) {
			isName = true
		}
	}
	if isName {
		f.reporter.addWithSeverity(f.severity, f.field, fix,
			"--%s=%s is a name, but a rank is a number from 0", name, text)
	}
}

// checkConfigured reports flags of a launcher that Rollcall configures with variables.
func (f *flagChecker) checkConfigured(l command.Launch) {
	if f.has("standalone") && f.gang.Size > 1 {
		f.add(removeFlag, "--standalone makes each of the %d pods train separately", f.gang.Size)
	}
	if nodes, _ := f.flag(l.NodesFlag); nodes.Known && !nodesFitGang(f.gang, nodes.Text) {
		fix := removeFlag
		if f.gang.Elastic != nil {
			fix = fixForFixedNodes(f.gang, nodes.Text)
		}
		f.add(fix, "--%s=%s, but the gang has %s pods", l.NodesFlag, nodes.Text, formatNodes(f.gang))
	}
	if processes := f.flags["nproc-per-node"]; processes.Known {
		f.checkProcesses("nproc-per-node", processes.Text)
	}
}

// checkProcesses reports a number of processes in each pod that contradicts the gang or the container.
func (f *flagChecker) checkProcesses(flag, value string) {
	count, err := strconv.ParseInt(value, 10, 32)
	switch {
	case f.gang.Processes.Explicit && value != f.gang.Processes.String():
		f.add(removeFlag, "--%s=%s, but %s sets %s processes in each pod",
			flag, value, gang.AnnotationNprocPerNode, f.gang.Processes)
	case err == nil && f.container.Accelerators > 0 && count > f.container.Accelerators:
		f.add(removeFlag, "--%s=%d, but the container %s has only %d accelerators",
			flag, count, f.container.Name, f.container.Accelerators)
	}
}

// fixForFixedNodes returns the remedy for an elastic gang whose command has a fixed number of
// nodes. Without the flag, an autoscaler could start more pods than the author expects.
func fixForFixedNodes(g *gang.Gang, nodes string) string {
	if nodes == strconv.Itoa(int(g.Size)) {
		return fmt.Sprintf("remove %s, because the command runs a gang of fixed size", gang.AnnotationElastic)
	}
	return fmt.Sprintf("for a gang of fixed size, remove %s; for an elastic gang, remove the flag", gang.AnnotationElastic)
}

// checkMachines reports flags of a launcher that needs them to start one program in several pods, such as accelerate
// launch. A single machine is correct in a gang of several pods, because the launcher then starts torchrun or the
// program with the injected variables.
func (f *flagChecker) checkMachines(l command.Launch) {
	machines, _ := f.number(l.NodesFlag)
	fitsGang := strconv.FormatInt(machines, 10) == formatNodes(f.gang)
	switch {
	case machines > 1 && !fitsGang:
		fix := "set it to " + formatNodes(f.gang)
		if f.gang.Elastic != nil {
			fix = fixForFixedNodes(f.gang, strconv.FormatInt(machines, 10))
		}
		f.add(fix, "--%s=%d, but the gang has %s pods", l.NodesFlag, machines, formatNodes(f.gang))
	case f.gang.Elastic != nil && f.complete && !f.has("rdzv-backend"):
		f.add("start the program with torchrun, or remove "+gang.AnnotationElastic,
			"%s uses the rendezvous static, but the gang has %s pods", l.Name, formatNodes(f.gang))
	}
	f.checkTotalProcesses(l, machines)
	if machines > 1 && fitsGang && f.complete && !f.has("config-file") {
		f.checkMissingFlags(l, machines)
	}
}

// checkTotalProcesses reports a wrong --num_processes, which counts the processes of all
// machines, or those of one pod without a number of machines.
func (f *flagChecker) checkTotalProcesses(l command.Launch, machines int64) {
	processes, ok := f.number("num-processes")
	accelerators := f.container.Accelerators
	isUnknown := f.has(l.NodesFlag) && machines == 0 || f.has("config-file") || f.has("cpu")
	switch {
	case !ok || isUnknown:
	case machines > 1 && processes < machines:
		f.add(fmt.Sprintf("set it to %d", machines*max(1, accelerators)),
			"--num_processes=%d is the total of %d machines, so some machines have no process", processes, machines)
	case accelerators > 0 && processes > accelerators*max(1, machines):
		f.add("remove it, because "+l.Name+" starts a process for each accelerator",
			"--num_processes=%d starts %d processes in each pod, but the container %s has only %d accelerators",
			processes, processes/max(1, machines), f.container.Name, accelerators)
	}
}

// checkMissingFlags reports flags that are missing with a number of machines.
func (f *flagChecker) checkMissingFlags(l command.Launch, machines int64) {
	var missing []string
	for _, required := range []struct{ flag, value string }{
		{flag: l.RankFlag, value: "$(ROLLCALL_RANK)"}, {flag: l.AddressFlags, value: "$(MASTER_ADDR)"},
	} {
		if !f.has(required.flag) {
			missing = append(missing, "--"+required.flag+"="+required.value)
		}
	}
	if len(missing) > 0 {
		f.add(fmt.Sprintf("remove --%s and --num_processes, because Rollcall sets variables for them, or add %s",
			l.NodesFlag, strings.Join(missing, " ")),
			"--%s=%d needs the rank of the machine and the address of rank 0", l.NodesFlag, machines)
	}
	multiNode := f.flags["deepspeed-multinode-launcher"]
	usesSSH := !f.has("deepspeed-multinode-launcher") || multiNode.Known && multiNode.Text == "pdsh"
	if f.has("use-deepspeed") && usesSSH {
		f.add("add --deepspeed_multinode_launcher=standard",
			"--use_deepspeed with --%s=%d starts processes over SSH, which the pods do not serve", l.NodesFlag, machines)
	}
}

// trainerNodesPattern matches the number of nodes of the Trainer of Lightning in the syntax of
// LightningCLI and of Hydra.
var trainerNodesPattern = regexp.MustCompile(`^(?:--|\+{0,2})trainer\.num_nodes=([0-9]+)$`)

// checkTrainerNodes reports a number of nodes of Lightning that contradicts the gang.
func (f *flagChecker) checkTrainerNodes(p command.Program) {
	if f.gang.Elastic != nil {
		return
	}
	texts := make([]string, 0, len(p.Args))
	for _, a := range p.Args {
		if !a.Known {
			a.Text = ""
		}
		texts = append(texts, a.Text)
	}
	for i, text := range texts {
		if text == "--trainer.num_nodes" && i+1 < len(texts) {
			text += "=" + texts[i+1]
		}
		match := trainerNodesPattern.FindStringSubmatch(text)
		if match != nil && match[1] != formatNodes(f.gang) {
			f.add("set it to "+formatNodes(f.gang), "trainer.num_nodes=%s, but the gang has %s pods",
				match[1], formatNodes(f.gang))
		}
	}
}

// nodesFitGang reports whether a value of --nnodes, a number or a range, includes the size of the
// gang. An elastic gang needs a range.
func nodesFitGang(g *gang.Gang, nodes string) bool {
	bounds, err := gang.ParseElasticBounds(nodes)
	if g.Elastic != nil {
		return err == nil
	}
	return nodes == formatNodes(g) || err == nil && bounds.Min <= g.Size && g.Size <= bounds.Max
}

// formatNodes returns the number of pods in the format of --nnodes.
func formatNodes(g *gang.Gang) string {
	if g.Elastic != nil {
		return g.Elastic.String()
	}
	return strconv.Itoa(int(g.Size))
}

// visitRank0Flags calls visit for each flag of a launcher that contains a literal host of rank 0.
func visitRank0Flags(launches []command.Launch, visit func(name, host string)) {
	for _, l := range launches {
		flags, _ := l.Flags()
		for name := range strings.FieldsSeq(l.AddressFlags) {
			value := flags[strings.ReplaceAll(name, "_", "-")]
			isEtcd := name == "rdzv-endpoint" && strings.HasPrefix(flags["rdzv-backend"].Text, "etcd") ||
				strings.HasPrefix(value.Text, "etcd://") // paddle.distributed.launch
			if value.Known && value.Text != "" && !isEtcd {
				visit("--"+name, value.Text)
			}
		}
	}
}
