package injection

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
	"rollcall.training/plan"
)

// Adopt returns g with the settings that variables of the user contain and annotations do not: the port
// of the rendezvous, and the number of processes of each pod if WORLD_SIZE counts processes. It reports
// whether g changed; the caller then plans again. Values of earlier injections are not of the user.
//
// A world size alone is not evidence. Its quotient must also be the number of accelerators, or a number
// of processes in a flag or a variable (see [processCounts]).
func Adopt(w gang.Workload, g gang.Gang, p plan.Plan) (gang.Gang, bool) {
	a := adopter{
		comparison: comparison{workload: w, gang: g, plan: p, budget: maxComparedBytes}, planned: indexEnv(p.Env),
	}
	_, hasPort := w.Meta().Annotations[gang.AnnotationPort]
	_, hasProcesses := w.Meta().Annotations[gang.AnnotationNprocPerNode]
	a.portAdopted, a.processesAdopted = hasPort, hasProcesses || g.Elastic != nil
	spec := &w.Template().Spec
	for i := range spec.Containers {
		if slices.ContainsFunc(g.Containers, func(c gang.Container) bool { return c.Name == spec.Containers[i].Name }) {
			a.adoptFrom(&spec.Containers[i])
		}
	}
	for i := range spec.InitContainers {
		a.adoptFrom(&spec.InitContainers[i])
	}
	return a.gang, a.changed
}

type adopter struct {
	comparison
	planned map[string]*plan.Env // of plan by name
	// portAdopted and processesAdopted are true if a value is set and no other is adopted.
	portAdopted, processesAdopted, changed bool
	// owned are the targets of an earlier injection; nil until needed.
	owned map[key]bool
}

// adoptFrom adopts values from the variables of a container.
func (a *adopter) adoptFrom(c *corev1.Container) {
	var values *envComparer
	counts := sync.OnceValue(func() []int64 { return a.processCounts(c, values) }) // reads the whole container
	for i := range c.Env {
		e := a.planned[c.Env[i].Name]
		if e == nil || c.Env[i].Value == e.Value || decide(setting, e.Policy) != adopt || a.isOwned(c.Name, e.Name) {
			continue
		}
		if values == nil {
			values = a.newEnvComparer(a.plan.Env, c)
		}
		if user := values.user[i]; user.Known {
			a.adoptPort(values, user.Text, e)
			a.adoptProcesses(counts, user.Text, e)
		}
	}
}

// isOwned reports whether an earlier injection has set the variable and nobody has edited it since.
func (a *adopter) isOwned(container, name string) bool {
	if a.owned == nil {
		a.owned = map[key]bool{}
		if record, err := ReadRecord(a.workload); err == nil && record != nil {
			a.owned, _ = record.findUnmodified(newDigester(newPodTemplate(a.workload.Template())))
		}
	}
	return a.owned[key{KindEnv, container, name}]
}

// maxPortOffset limits the text that is searched for the first port. A host has at most 253 characters.
const maxPortOffset = 1024

// portPattern matches the port of an address.
var portPattern = regexp.MustCompile(`:([0-9]+)`)

// adoptPort adopts the port of a text that means the same as the planned value except for the port.
func (a *adopter) adoptPort(values *envComparer, text string, planned *plan.Env) {
	if a.portAdopted {
		return
	}
	own, port := strconv.Itoa(int(a.gang.Port)), text
	if planned.Meaning != plan.Port {
		match := portPattern.FindStringSubmatch(text[:min(len(text), maxPortOffset)])
		if match == nil {
			return
		}
		port = match[1]
		if !values.isSame(strings.ReplaceAll(text, ":"+port, ":"+own), values.planned[planned.Name].Text, planned.Meaning) {
			return
		}
	}
	if n, err := strconv.Atoi(port); err == nil && n >= gang.MinPort && n <= gang.MaxPort {
		a.changed = a.changed || a.gang.Port != int32(n)
		a.gang.Port, a.portAdopted = int32(n), true
	}
}

// adoptProcesses adopts the number of processes of each pod from a world size, if it is one of counts.
func (a *adopter) adoptProcesses(counts func() []int64, text string, planned *plan.Env) {
	if a.processesAdopted || planned.Meaning != plan.WorldSize {
		return
	}
	count := processesOfWorld(a.gang, text)
	if count == 0 || !slices.Contains(counts(), count) {
		return
	}
	a.gang.Processes = gang.Processes{Count: count, Explicit: true}
	a.processesAdopted, a.changed = true, true
}

// processesOfWorld returns the number of processes of each pod in a world; 0 if the pods cannot have
// the same number of several processes.
func processesOfWorld(g gang.Gang, worldSize string) int64 {
	world, err := strconv.ParseInt(worldSize, 10, 64)
	pods := int64(g.Size)
	if err != nil || world <= pods || world%pods != 0 || world/pods > gang.MaxProcessesPerPod {
		return 0
	}
	return world / pods
}

// processCountVars are variables with the number of processes of a pod: those of torchrun, and those
// that scripts commonly pass to its flag.
var processCountVars = []string{
	"PET_NPROC_PER_NODE", "NPROC_PER_NODE", "GPUS_PER_NODE", "NUM_GPUS_PER_NODE", "LOCAL_WORLD_SIZE",
}

// processCounts returns the numbers of processes that the manifest indicates: the accelerators of the
// container, its variables, and the flags of its command.
func (a *adopter) processCounts(c *corev1.Container, values *envComparer) []int64 {
	var counts []int64
	add := func(text string) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			counts = append(counts, n)
		}
	}
	for _, parsed := range a.gang.Containers {
		if parsed.Name == c.Name && parsed.Accelerators > 0 {
			counts = append(counts, parsed.Accelerators)
		}
	}
	numbers, variables := command.ScanProcessCounts(slices.Concat(c.Command, c.Args))
	for _, number := range numbers {
		add(number)
	}
	vars := slices.Concat(processCountVars, variables)
	for i := range c.Env {
		if slices.Contains(vars, c.Env[i].Name) && values.user[i].Known {
			add(values.user[i].Text)
		}
	}
	return counts
}
