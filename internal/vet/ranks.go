package vet

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

// rank0AddressVars are the variables that contain the host of rank 0.
var rank0AddressVars = []string{
	"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "RDZV_ENDPOINT", "JAX_COORDINATOR_ADDRESS",
	"COORDINATOR_ADDRESS", "PADDLE_MASTER", "DMLC_TRACKER_URI", "DMLC_PS_ROOT_URI", "MAIN_PROCESS_IP",
}

// accelerateAddressFlag is the flag of accelerate launch that contains the host of rank 0.
const accelerateAddressFlag = "--main_process_ip"

// fixForRendezvousHost returns the remedy for a wrong host of rank 0 in a variable or flag.
func fixForRendezvousHost(name string) string {
	if name == accelerateAddressFlag { // accelerate reads no variable for the address.
		return "use " + accelerateAddressFlag + "=$(MASTER_ADDR)"
	}
	return "remove it, because Rollcall sets the address of rank 0"
}

// isLoopback reports whether the host of an address is the pod itself.
func isLoopback(address string) bool {
	host := hostOf(address)
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func checkLoopbackRendezvous(r *reporter, w *labeledWorkload) {
	if !w.hasMultiplePods() {
		return
	}
	check := func(field, name, host string, severity Severity) {
		if isLoopback(host) {
			r.addWithSeverity(severity, field, fixForRendezvousHost(name),
				"%s is %s, which is the pod itself, so the ranks cannot find each other", name, host)
		}
	}
	w.visitRendezvousHosts(check)
}

// visitRendezvousHosts calls visit for each literal address of rank 0 in the variables and commands
// of the training containers. The severity is [Error] for the flag of the only program of a command.
func (w *labeledWorkload) visitRendezvousHosts(visit func(field, name, host string, severity Severity)) {
	for _, c := range w.trainingContainers() {
		w.visitAssignments(c, rank0AddressVars, visit)
		parsed := c.parseCommand()
		visitRank0Flags(w.launchers.FindAll(parsed), func(name, host string) {
			visit(c.commandPath(), name, host, severityOfFlag(parsed))
		})
	}
}

// severityOfFlag returns the severity of a flag with which the ranks cannot find each other. A script with several
// programs or a condition can choose the program by the rank, so the severity is then that of the check.
func severityOfFlag(c command.Command) Severity {
	if len(c.Programs) == 1 && !c.MayRepeat && !c.MayBranch {
		return Error
	}
	return ""
}

// rankVars are the variables from which programs read their rank or the rank of their node.
var rankVars = []string{
	"RANK", "NODE_RANK", "GROUP_RANK", "MACHINE_RANK", "WORLD_RANK", "PET_NODE_RANK", "JAX_PROCESS_ID", "PROCESS_ID",
	"SLURM_PROCID", "SLURM_NODEID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "DMLC_TASK_ID", "PADDLE_TRAINER_ID",
}

func checkHardcodedRank(r *reporter, w *labeledWorkload) {
	ownPods := w.maxPods()
	if ownPods < 2 {
		return
	}
	for _, c := range w.trainingContainers() {
		w.visitAssignments(c, rankVars, func(field, name, value string, severity Severity) {
			mistake := "so the ranks are not unique"
			if _, err := strconv.Atoi(value); err != nil {
				mistake = "but a rank is a number from 0"
			} else if field != c.commandPath() { // The webhook denies the variables that the framework reads.
				severity = ""
			}
			r.addWithSeverity(severity, field, "remove it, or use $(ROLLCALL_RANK)",
				"%s is %s in all %d pods, %s", name, value, ownPods, mistake)
		})
		w.visitPodNames(c, func(field, name string, severity Severity) {
			r.addWithSeverity(severity, field, "remove it, or use $(ROLLCALL_RANK)",
				"%s is the name of the pod, but a rank is a number from 0", name)
		})
		w.visitTFConfigs(c, func(field string, config tfConfig, severity Severity) {
			if config.Task.Index != nil {
				r.addWithSeverity(severity, field, fixForTFConfig, "the task of TF_CONFIG is %s %d in all %d pods, "+
					"so the ranks are not unique", config.Task.Type, *config.Task.Index, ownPods)
			}
		})
	}
}

// visitAssignments calls visit for each literal value that the environment or the command of a
// container assigns to one of the variables. It skips the environment if the webhook rejects the
// workload, because the denial already names these variables. The severity is [Error] if the program
// certainly reads the value.
func (w *labeledWorkload) visitAssignments(
	c trainingContainer, variables []string, visit func(field, name, value string, severity Severity),
) {
	parsed := c.parseCommand()
	hasLauncher := len(w.launchers.FindAll(parsed)) > 0
	if w.denial == nil {
		for i, e := range c.Env {
			if value, ok := literalValue(e); ok && slices.Contains(variables, e.Name) {
				visit(c.envPath(i), e.Name, value, severityOfEnv(e.Name, hasLauncher))
			}
		}
	}
	for _, a := range parsed.Assignments {
		if !slices.Contains(variables, a.Name) {
			continue
		}
		var severity Severity
		if severityOfFlag(parsed) == Error && !parsed.IsReassigned(a.Name) {
			severity = c.severityOfVariable(a.Name, hasLauncher)
		}
		visit(c.commandPath(), a.Name, a.Value, severity)
	}
}

// visitPodNames calls visit for each variable of the environment that should contain a rank, and contains the name of
// the pod. A script can convert the name. The severity is [Error] if the program certainly reads the variable.
func (w *labeledWorkload) visitPodNames(c trainingContainer, visit func(field, name string, severity Severity)) {
	parsed := c.parseCommand()
	hasLauncher := len(w.launchers.FindAll(parsed)) > 0
	for i, e := range c.Env {
		isRank := slices.Contains(rankVars, e.Name) && isPodName(c.Env, e)
		if w.denial != nil || !isRank || parsed.Assigns(e.Name) {
			continue
		}
		field, severity := fmt.Sprintf("%s.env[%d]", c.path, i), severityOfEnv(e.Name, hasLauncher)
		// The webhook warns about the variables that Rollcall would set. Without a launcher, the program reads them.
		isPlanned := slices.ContainsFunc(w.warnings, func(x gang.Warning) bool {
			return strings.HasPrefix(x.Path, field+".")
		})
		isPython := len(parsed.Programs) > 0 && strings.HasPrefix(parsed.Programs[0].Name, "python")
		if isPlanned && !hasLauncher && isPython { // a script can convert it
			severity = severityOfFlag(parsed)
		}
		visit(field, e.Name, severity)
	}
}

// isPodName reports whether a variable contains the name of the pod, or refers to a variable with the name.
func isPodName(env []corev1.EnvVar, e corev1.EnvVar) bool {
	if reference, ok := strings.CutPrefix(e.Value, "$("); ok {
		if referred := findEnv(env, strings.TrimSuffix(reference, ")")); referred != nil {
			e = *referred
		}
	}
	return e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name"
}

// findEnv returns the variable with the given name, or nil.
func findEnv(env []corev1.EnvVar, name string) *corev1.EnvVar {
	i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &env[i]
}

// severityOfEnv returns [Error] for a variable of the environment that the program of a container certainly reads. The
// webhook denies wrong values of the variables that Rollcall would inject, so others are unknown to the framework,
// except those that torchrun or TensorFlow reads in any gang.
func severityOfEnv(name string, hasLauncher bool) Severity {
	if name == tfConfigVar || hasLauncher && strings.HasPrefix(name, "PET_") {
		return Error
	}
	return ""
}

// severityOfVariable returns [Error] for a variable that a script assigns before its program reads it. A launcher reads
// the variables with its prefix and sets those of its processes. Without a launcher, the program reads the variables
// that Rollcall injects.
func (c trainingContainer) severityOfVariable(name string, hasLauncher bool) Severity {
	isOfLauncher := strings.HasPrefix(name, "PET_")
	if isOfLauncher == hasLauncher && findEnv(c.Env, name) != nil {
		return Error
	}
	return ""
}

// tfConfigVar is the variable from which TensorFlow reads the addresses of all tasks and the task of the pod.
const tfConfigVar = "TF_CONFIG"

// fixForTFConfig is the remedy for a literal value of the variable.
const fixForTFConfig = "remove it, because Rollcall sets it in gangs of the framework that reads it"

// tfConfig is the value of TF_CONFIG.
type tfConfig struct {
	Cluster map[string][]string `json:"cluster"`
	Task    struct {
		Type string `json:"type"`
		// Index is nil without a task.
		Index *int `json:"index"`
	} `json:"task"`
}

// visitTFConfigs calls visit for each literal TF_CONFIG of a container that is valid JSON.
func (w *labeledWorkload) visitTFConfigs(
	c trainingContainer, visit func(field string, config tfConfig, severity Severity),
) {
	w.visitAssignments(c, []string{tfConfigVar}, func(field, _, value string, severity Severity) {
		var config tfConfig
		if json.Unmarshal([]byte(value), &config) == nil {
			visit(field, config, severity)
		}
	})
}

// checkTFConfigHosts reports the first address of each literal TF_CONFIG that belongs to no pod of the gang.
func (r *reporter) checkTFConfigHosts(w *labeledWorkload) {
	for _, c := range w.trainingContainers() {
		w.visitTFConfigs(c, func(field string, config tfConfig, severity Severity) {
			for _, task := range slices.Sorted(maps.Keys(config.Cluster)) {
				for _, address := range config.Cluster[task] {
					if reason := r.explainUnresolvableHost(w, hostOf(address)); reason != "" {
						r.addWithSeverity(severity, field, fixForTFConfig, "%s contains %s, but %s", tfConfigVar, address, reason)
						return
					}
				}
			}
		})
	}
}
