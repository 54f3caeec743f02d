package vet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func rankChecks() []Check {
	return []Check{
		{
			Code: CodeLoopbackRendezvous, Severity: Warning, checkGang: checkLoopbackRendezvous,
			Title: "The rendezvous address is localhost",
			Why: "In each pod, localhost is the pod itself, so each rank waits for the other ranks until it times out. " +
				"A flag or an `export` in the command overrides the variable that Rollcall injects.",
			Fix: "Remove the address, because Rollcall sets the address of rank 0. " +
				"For accelerate, use `--main_process_ip=$(MASTER_ADDR)`.",
		},
		{
			Code: CodeUnresolvableRendezvous, Severity: Warning, checkGang: checkUnresolvableRendezvous,
			Title: "The rendezvous address is not the address of a pod of the gang",
			Why: "The address of a pod is its hostname with the name of the headless Service, such as `train-0.train`. " +
				"The hostname without the Service resolves only in gangs with a launcher. " +
				"If the address does not resolve, all ranks wait until they time out.",
			Fix: "Remove the address, because Rollcall sets the address of rank 0. " +
				"For accelerate, use `--main_process_ip=$(MASTER_ADDR)`.",
		},
		{
			Code: CodeHardcodedRank, Severity: Warning, checkGang: checkHardcodedRank,
			Title: "A rank is a fixed number",
			Why: "All pods of a workload have the same template, so all of them get the same number. " +
				"If two processes use the same rank, the other processes wait for the missing rank.",
			Fix: "Remove the value, because Rollcall gives each pod its own rank. " +
				"For a variable with a different name, use `$(ROLLCALL_RANK)`.",
		},
	}
}

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

// isLoopback reports whether a host with an optional port is a loopback address.
func isLoopback(host string) bool {
	if strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host[1:], "]")
	} else if strings.Count(host, ":") == 1 {
		host, _, _ = strings.Cut(host, ":")
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func checkLoopbackRendezvous(_ *input, w *labeledWorkload) []issue {
	if !w.hasMultiplePods() {
		return nil
	}
	var issues []issue
	check := func(field, name, host string) {
		if isLoopback(host) {
			issues = append(issues, issue{
				field:   field,
				message: fmt.Sprintf("%s is %s, which is the pod itself, so the ranks cannot find each other", name, host),
				fix:     fixForRendezvousHost(name),
			})
		}
	}
	w.visitRendezvousHosts(check)
	return issues
}

// visitRendezvousHosts calls visit for each literal address of rank 0 in the variables and commands
// of the training containers.
func (w *labeledWorkload) visitRendezvousHosts(visit func(field, name, host string)) {
	for _, c := range w.trainingContainers() {
		w.visitAssignments(c, rank0AddressVars, visit)
		visitRank0Flags(c.parseCommand(), func(name, host string) { visit(c.commandPath(), name, host) })
	}
}

// rankVars are the variables from which programs read their rank or the rank of their node.
var rankVars = []string{
	"RANK", "NODE_RANK", "GROUP_RANK", "MACHINE_RANK", "WORLD_RANK", "PET_NODE_RANK", "JAX_PROCESS_ID", "PROCESS_ID",
	"SLURM_PROCID", "SLURM_NODEID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "DMLC_TASK_ID", "PADDLE_TRAINER_ID",
}

func checkHardcodedRank(_ *input, w *labeledWorkload) []issue {
	ownPods, _ := w.maxPods()
	if ownPods < 2 {
		return nil
	}
	var issues []issue
	check := func(field, name, value string) {
		if _, err := strconv.Atoi(value); err == nil {
			issues = append(issues, issue{
				field:   field,
				message: fmt.Sprintf("%s is %s in all %d pods, so the ranks are not unique", name, value, ownPods),
				fix:     "remove it, or use $(ROLLCALL_RANK)",
			})
		}
	}
	for _, c := range w.trainingContainers() {
		w.visitAssignments(c, rankVars, check)
	}
	return issues
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
