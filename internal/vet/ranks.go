package vet

import (
	"net/netip"
	"slices"
	"strconv"

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
		w.visitAssignments(c, rank0AddressVars, func(field, name, host string) { visit(field, name, host, "") })
		parsed := c.parseCommand()
		visitRank0Flags(w.launchers.FindAll(parsed), func(name, host string) {
			visit(c.commandPath(), name, host, severityOfFlag(parsed))
		})
	}
}

// severityOfFlag returns the severity of a flag with which the ranks cannot find each other. A script with several
// programs can choose the program by the rank, so the severity is then that of the check.
func severityOfFlag(c command.Command) Severity {
	if len(c.Programs) == 1 && !c.MayRepeat {
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
	ownPods, _ := w.maxPods()
	if ownPods < 2 {
		return
	}
	check := func(field, name, value string) {
		if _, err := strconv.Atoi(value); err == nil {
			r.add(field, "remove it, or use $(ROLLCALL_RANK)",
				"%s is %s in all %d pods, so the ranks are not unique", name, value, ownPods)
		}
	}
	for _, c := range w.trainingContainers() {
		w.visitAssignments(c, rankVars, check)
	}
}

// visitAssignments calls visit for each literal value that the environment or the command of a
// container assigns to one of the variables. It skips the environment if the webhook rejects the
// workload, because the denial already names these variables.
func (w *labeledWorkload) visitAssignments(
	c trainingContainer, variables []string, visit func(field, name, value string),
) {
	if w.denial == nil {
		for i, e := range c.Env {
			if value, ok := literalValue(e); ok && slices.Contains(variables, e.Name) {
				visit(c.envPath(i), e.Name, value)
			}
		}
	}
	for _, a := range c.parseCommand().Assignments {
		if slices.Contains(variables, a.Name) {
			visit(c.commandPath(), a.Name, a.Value)
		}
	}
}
