package ir

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

var (
	torchrunCommand = regexp.MustCompile(`\btorchrun\b|\btorch\.distributed\.(run|launch)\b`)
	nodesFlag       = regexp.MustCompile(`--nnodes\b|--standalone\b`)
)

// ReportJoinedPods reports a torchrun without a number of nodes. Its default is one node, so each pod
// trained separately, and Rollcall sets PET_NNODES to the number of pods.
func ReportJoinedPods(framework gang.Framework, spec *corev1.PodSpec, template source.Field, pods int32) {
	if !framework.HasTorchrunVars || framework.HasLauncher {
		return
	}
	for _, c := range ListContainers(spec) {
		command := JoinCommand(c)
		setsNodes := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "PET_NNODES" })
		if pods > 1 && torchrunCommand.MatchString(command) && !nodesFlag.MatchString(command) && !setsNodes {
			template.AddNote(fmt.Sprintf("torchrun has no --nnodes, so each of the %d pods trained separately; "+
				"Rollcall sets PET_NNODES, and all pods train together", pods),
				"add --standalone to the command if the pods must train separately")
			return
		}
	}
}
