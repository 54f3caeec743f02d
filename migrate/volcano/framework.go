package volcano

import (
	"regexp"
	"slices"
	"strings"
)

// framework is what the reader has to know of a framework of Rollcall. What its injector
// declares of it is the same; a test compares the two.
type framework struct {
	name string
	// roles are in the order of their ranks.
	roles []role
	// byDefault is the role of a task that has no other name for its part.
	byDefault string
	// port is the rendezvous port when nobody names one.
	port int32
	// launches is true where a launcher starts the processes of the other pods.
	launches bool
	// own are the variables that Rollcall sets and suffers no other value of.
	own []string
	// marks are what a command or a variable of the framework looks like.
	marks *regexp.Regexp
}

// role is a part in a framework.
type role struct {
	name string
	// words are further names under which tasks play it.
	words []string
	// one is true for a part of one pod.
	one bool
	// decides is true for a part whose end is the gang's.
	decides bool
	// serves is true for a part that never ends by itself.
	serves bool
}

// Roles that several frameworks have.
const (
	roleMaster   = "master"
	roleWorker   = "worker"
	roleLauncher = "launcher"
)

var (
	torchOwn = []string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE",
		"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK", "PET_NNODES"}
	boostingOwn = []string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "WORKER_ADDRS", "WORKER_PORT",
		"DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_NUM_WORKER", "DMLC_TASK_ID"}
	masters   = role{name: roleMaster, words: []string{"chief", "head", "leader", "scheduler", "tracker"}, one: true, decides: true}
	launchers = role{name: roleLauncher, words: []string{"master", "head", "driver", "main"}, one: true, decides: true}
	workers   = role{name: roleWorker}
)

// frameworks are in the order in which their marks are looked for: the program that
// starts the others says more than a variable that several have.
func frameworks() []framework {
	return []framework{
		{name: "horovod", roles: []role{launchers, workers}, byDefault: roleLauncher, port: 2222, launches: true, marks: regexp.MustCompile(`\bhorovodrun\b`)},
		{name: "deepspeed", roles: []role{launchers, workers}, byDefault: roleWorker, port: 29500, launches: true, own: append([]string{"LOCAL_RANK"}, torchOwn...),
			marks: regexp.MustCompile(`(?m)(^|[\s;&|/])deepspeed\s`)},
		{name: "mpi", roles: []role{launchers, workers}, byDefault: roleLauncher, port: 2222, launches: true, marks: regexp.MustCompile(`\b(mpirun|mpiexec)\b`)},
		{name: "pytorch", roles: []role{masters, workers}, byDefault: roleWorker, port: 23456, own: torchOwn,
			marks: regexp.MustCompile(`\btorchrun\b|\btorch\.distributed\b|\bPET_[A-Z]`)},
		{name: "tensorflow", roles: []role{{name: roleMaster, one: true, decides: true}, {name: "chief", one: true, decides: true}, workers,
			serving(role{name: "ps", words: []string{"server", "pserver", "parameter-server"}}), serving(role{name: "evaluator", words: []string{"eval"}})},
			byDefault: roleWorker, port: 2222, own: []string{"TF_CONFIG", "TF_TASK_INDEX"}, marks: regexp.MustCompile(`\bTF_CONFIG\b`)},
		{name: "paddle", roles: []role{serving(role{name: roleMaster, words: []string{"ps", "server", "pserver"}}), {name: roleWorker, words: []string{"trainer"}}},
			byDefault: roleWorker, port: 36543, marks: regexp.MustCompile(`\bpaddle\.distributed\b|\bPADDLE_[A-Z]`),
			own: []string{"PADDLE_JOB_ID", "PADDLE_NNODES", "PADDLE_MASTER", "PADDLE_RANK", "PADDLE_SERVER_NUM", "PADDLE_TRAINER_NUM",
				"PADDLE_SERVERS_ENDPOINTS", "PADDLE_TRAINERS_ENDPOINTS", "PADDLE_POD_INDEX", "POD_IP", "PADDLE_LOG_DIR"}},
		{name: "jax", roles: []role{workers}, byDefault: roleWorker, port: 6666, marks: regexp.MustCompile(`\bJAX_(COORDINATOR|NUM_PROCESSES|PROCESS_ID)|\bjax\.distributed\b`),
			own: []string{"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "COORDINATOR_ADDRESS", "COORDINATOR_PORT", "NUM_PROCESSES", "PROCESS_ID",
				"SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"}},
		{name: "xgboost", roles: []role{masters, workers}, byDefault: roleWorker, port: 9999, own: boostingOwn, marks: regexp.MustCompile(`\bxgboost\b|\bDMLC_[A-Z]`)},
		{name: "lightgbm", roles: []role{masters, workers}, byDefault: roleWorker, port: 9999, own: boostingOwn, marks: regexp.MustCompile(`\blightgbm\b`)},
		// Last: a program of PyTorch may be called anything, but these it reads, and others do too.
		{name: "pytorch", marks: regexp.MustCompile(`\bMASTER_ADDR\b|\bWORLD_SIZE\b`)},
	}
}

func serving(r role) role {
	r.serves = true
	return r
}

// frameworkNames are all frameworks, for a message.
func frameworkNames() []string {
	var names []string
	for _, f := range frameworks() {
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return names
}

// frameworkOf is the framework of the given name; false when Rollcall has none.
func frameworkOf(name string) (framework, bool) {
	for _, f := range frameworks() {
		if f.name == name {
			return f, true
		}
	}
	return framework{}, false
}

// guess finds the framework by what the commands call, and the mark that told; false
// where nothing does.
func guess(texts []string) (framework, string, bool) {
	for _, f := range frameworks() {
		for _, text := range texts {
			if mark := f.marks.FindString(text); mark != "" {
				found, _ := frameworkOf(f.name)
				return found, strings.Trim(mark, " \t\n;&|/"), true
			}
		}
	}
	return framework{}, "", false
}

// roleOf is the part that a task plays by its name; empty when the name tells none.
func (f framework) roleOf(task string) string {
	name := strings.ToLower(task)
	for _, prefix := range []string{f.name, "tf", "torch"} {
		name = strings.TrimLeft(strings.TrimPrefix(name, prefix), "-")
	}
	words := append([]string{name}, strings.Split(name, "-")...)
	for _, word := range words {
		for _, r := range f.roles {
			if word == r.name || slices.Contains(r.words, word) {
				return r.name
			}
		}
	}
	return ""
}

// role is the part of the given name.
func (f framework) role(name string) role {
	at := slices.IndexFunc(f.roles, func(r role) bool { return r.name == name })
	if at < 0 {
		return role{}
	}
	return f.roles[at]
}
