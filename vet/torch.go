package vet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
)

func ofTorch() []Check {
	return []Check{
		{
			Code: CodeLauncherFlags, Severity: Warning, gang: launcherFlags,
			Title: "A flag of torchrun contradicts what is injected",
			Why:   "torchrun reads the PET_ variables in place of its flags, and a flag that is written wins (torch/distributed/argparse_util.py). A number of nodes or an address in the command does not follow the workload when that changes, and one that is wrong already makes the ranks wait for each other in vain.",
			Fix:   "Remove the flag: Rollcall sets `PET_NNODES`, `PET_NODE_RANK` and `PET_NPROC_PER_NODE`, and the address and port of rank 0.",
		},
		{
			Code: CodeTorchLaunchDeprecated, Severity: Advice, gang: torchLaunch,
			Title: "torch.distributed.launch is deprecated",
			Why:   "PyTorch replaced it by torchrun in 1.10, and may remove it. It hands the local rank over as an argument unless told otherwise, in a spelling that changed with 2.0.",
			Fix:   "Start `torchrun`, and read the variable `LOCAL_RANK` in the program.",
		},
		{
			Code: CodeOneProcess, Severity: Advice, gang: oneProcess,
			Title: "Several processes for each pod, and a command that starts one",
			Why:   "Python alone is one process. It trains on one accelerator while the others idle, and with `" + gang.AnnotationNproc + "` the world is larger than the number of processes, so they wait for the rest in vain. Programs that start the others themselves, such as those of Lightning, are fine.",
			Fix:   "Start the program with `torchrun`, which starts one process for each accelerator.",
		},
		{
			Code: CodeElasticWithoutTorchrun, Severity: Warning, gang: elasticWithoutTorchrun,
			Title: "An elastic gang, and a command without torchrun",
			Why:   "The ranks of an elastic gang are handed out by torchrun at each rendezvous; `RANK` and `WORLD_SIZE` are not injected. A program that is started directly finds neither.",
			Fix:   "Start the program with `torchrun`, or remove `" + gang.AnnotationElastic + "`.",
		},
	}
}

// switches are the flags of torchrun that take no value.
var switches = []string{"standalone", "no-python", "m", "module", "run-path", "use-env", "virtual-local-rank", "h", "help"}

// torchrun are the flags of a call of torchrun, by their names with dashes; false for
// another program.
func (p program) torchrun() (flags map[string]word, deprecated, ok bool) {
	args := p.args
	if module, _, rest, python := p.python(); python {
		deprecated = module == "torch.distributed.launch"
		if !deprecated && module != "torch.distributed.run" {
			return nil, false, false
		}
		args = rest
	} else if p.name != "torchrun" {
		return nil, false, false
	}
	flags = map[string]word{}
	for i := 0; i < len(args) && args[i].known && strings.HasPrefix(args[i].text, "-"); i++ {
		name, value, inline := strings.Cut(strings.TrimLeft(args[i].text, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		switch {
		case inline:
			flags[name] = word{text: value, known: true}
		case slices.Contains(switches, name) || i+1 == len(args):
			flags[name] = word{}
		default:
			i++
			flags[name] = args[i]
		}
	}
	return flags, deprecated, true
}

// readsTorch reports whether the workload's pods are given the variables of torchrun.
func (m *member) readsTorch() bool {
	return m.gang.Framework.Name == "pytorch" || m.gang.Framework.Name == "deepspeed" && len(m.gang.Members) == 1
}

func launcherFlags(_ *input, m *member) []remark {
	if !m.readsTorch() {
		return nil
	}
	var out []remark
	for _, c := range m.trainers() {
		for _, p := range c.command().programs {
			if flags, _, ok := p.torchrun(); ok {
				out = append(out, contradictions(m, c.path+".command", flags)...)
			}
		}
	}
	return out
}

func contradictions(m *member, field string, flags map[string]word) []remark {
	var out []remark
	against := func(flag, got, want string) {
		out = append(out, say(field, "--%s=%s, and the gang has %s", flag, got, want).do("remove the flag, which Rollcall sets by a variable")...)
	}
	if _, ok := flags["standalone"]; ok && m.gang.Size > 1 {
		out = append(out, say(field, "--standalone makes each of %d pods a world of its own", m.gang.Size).do("remove the flag")...)
	}
	if n := flags["nnodes"]; n.known && !fits(m.gang, n.text) {
		against("nnodes", n.text, nodes(m.gang)+" pods")
	}
	if r := flags["node-rank"]; r.known && m.gang.Size > 1 && !handsOut(m.gang, flags) {
		if _, err := strconv.Atoi(r.text); err == nil {
			out = append(out, say(field, "--node-rank=%s is the same in each of the gang's %d pods", r.text, m.gang.Size).do("remove the flag, which Rollcall sets by a variable")...)
		}
	}
	if n := flags["nproc-per-node"]; n.known && m.gang.Processes.Explicit && n.text != m.gang.Processes.String() {
		against("nproc-per-node", n.text, fmt.Sprintf("%s processes in each pod by %s", m.gang.Processes, gang.AnnotationNproc))
	}
	return out
}

// fits reports whether a number of nodes, or its bounds, have room for the gang.
func fits(g *gang.Gang, text string) bool {
	bounds, err := gang.ParseElastic(text)
	if g.Elastic != nil {
		return err == nil
	}
	return text == nodes(g) || err == nil && bounds.Min <= g.Size && g.Size <= bounds.Max
}

// handsOut reports whether torchrun hands out the ranks of nodes by itself, as all of its
// rendezvous do but the static one.
func handsOut(g *gang.Gang, flags map[string]word) bool {
	backend, ok := flags["rdzv-backend"]
	return g.Elastic != nil || ok && backend.text != "static"
}

// nodes is the number of pods as torchrun is told it.
func nodes(g *gang.Gang) string {
	if g.Elastic != nil {
		return g.Elastic.String()
	}
	return strconv.Itoa(int(g.Size))
}

func torchLaunch(_ *input, m *member) []remark {
	var out []remark
	for _, c := range m.trainers() {
		for _, p := range c.command().programs {
			if _, deprecated, ok := p.torchrun(); ok && deprecated {
				out = append(out, say(c.path+".command", "torch.distributed.launch is deprecated").do("start torchrun, and read the variable LOCAL_RANK in the program")...)
			}
		}
	}
	return out
}

// harmless are programs beside the one that trains.
var harmless = []string{"cd", "set", "export", "echo", "printf", "mkdir", "cp", "ln", "pip", "pip3", "source", ".", "ls", "env", "date", "nvidia-smi",
	"hostname", "ulimit", "unset", "trap", "true", "sleep", "cat", "chmod", "test", "[", "tee", "wait"}

// plainly is the one Python script that a command runs, and nothing that could start
// others.
func (c command) plainly() (string, bool) {
	found := ""
	if c.repeats {
		return "", false
	}
	for _, p := range c.programs {
		if slices.Contains(harmless, p.name) {
			continue
		}
		_, script, _, ok := p.python()
		if !ok || !strings.HasSuffix(script, ".py") || found != "" {
			return "", false
		}
		found = script
	}
	return found, found != ""
}

func oneProcess(_ *input, m *member) []remark {
	trainers := m.trainers()
	n := m.gang.Processes
	if !m.readsTorch() || m.gang.Elastic != nil || len(trainers) == 0 || n.Count < 2 {
		return nil
	}
	c := trainers[0]
	script, ok := c.command().plainly()
	switch {
	case !ok:
		return nil
	case n.Explicit:
		return say(c.path+".command", "python %s is one process, and %s promises %d in each pod", script, gang.AnnotationNproc, n.Count).
			do("start it with torchrun, unless it starts the others itself")
	case c.read.Accelerators > 1:
		return say(c.path+".command", "python %s is one process, and the pod has %d accelerators", script, c.read.Accelerators).
			do("start it with torchrun, unless it uses all of them, or starts the others itself")
	}
	return nil
}

func elasticWithoutTorchrun(_ *input, m *member) []remark {
	if m.gang.Framework.Name != "pytorch" || m.gang.Elastic == nil {
		return nil
	}
	var out []remark
	for _, c := range m.trainers() {
		if script, ok := c.command().plainly(); ok {
			out = append(out, say(c.path+".command", "python %s finds no RANK and no WORLD_SIZE: those of an elastic gang come from torchrun", script).
				do("start it with torchrun, or remove %s", gang.AnnotationElastic)...)
		}
	}
	return out
}
