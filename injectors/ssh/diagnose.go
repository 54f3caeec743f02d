package ssh

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// Diagnoser is the part of an injector that explains which workers its launcher reached. The zero value is ready to
// use.
type Diagnoser struct{}

// Diagnose returns why a gang that succeeded did not use its workers, from the pod of its launcher: the launcher
// connected to none of them, or to only one of several, so all ranks ran in one pod. It returns an empty text if
// there is no problem or no report. complete is false while [MonitorContainerName] is running.
func (Diagnoser) Diagnose(g gang.Gang, launcher *corev1.Pod) (problem string, complete bool) {
	hosts := minWorkerHosts(g)
	for _, c := range launcher.Status.InitContainerStatuses {
		switch {
		case c.Name != MonitorContainerName || hosts == 0:
			continue
		case c.State.Terminated == nil:
			return "", false
		}
		reached, ok := ParseReachedHosts(c.State.Terminated.Message)
		if !ok || reached > 1 || int32(reached) == hosts {
			return "", true
		}
		return fmt.Sprintf("The gang succeeded, but its launcher reached only %d of %d workers, "+
			"so the other workers were idle. "+
			"Open MPI from 5.0.6 reads PRTE_MCA_prte_default_hostfile instead of OMPI_MCA_orte_default_hostfile, "+
			"and other launchers need the hostfile as an option; see docs/reference/frameworks/mpi.md", reached, hosts), true
	}
	return "", true
}

// ParseReachedHosts parses the termination message of [MonitorContainerName]: the number of hosts
// that the launcher connected to, without its own host. It returns false for any other message.
func ParseReachedHosts(message string) (int, bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(message), "reached=")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
