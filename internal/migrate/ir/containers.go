package ir

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// ListContainers returns the init containers and the containers of a pod.
func ListContainers(spec *corev1.PodSpec) []*corev1.Container {
	var out []*corev1.Container
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	return out
}

// NewClaimVolume returns a volume with a PersistentVolumeClaim.
func NewClaimVolume(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// FindContainer returns the index of the container with the given name, or -1.
func FindContainer(spec *corev1.PodSpec, name string) int {
	return slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

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

// hostnameRead matches the ways in which shells and Python read the hostname of the pod.
var hostnameRead = regexp.MustCompile(
	"[$]\\(\\s*hostname\\b[^)]*\\)|`hostname\\b|\\bhostname\\s*[|>]|[$]\\{?HOSTNAME\\b|[$]\\(HOSTNAME\\)" +
		`|/etc/hostname\b|\bgethostname\b|\buname -n\b|\bplatform\.node\b`)

// ReportHostnameReads reports that a program reads the hostname of its pod, which the migration changes.
// It looks at the containers and at further texts, such as mounted scripts.
func ReportHostnameReads(spec *corev1.PodSpec, texts []string, template source.Field, former, now string) {
	found := ""
	find := func(text string) {
		if found == "" {
			found = strings.TrimSpace(hostnameRead.FindString(text))
		}
	}
	for _, c := range ListContainers(spec) {
		VisitTexts(c, func(text *string) { find(*text) })
	}
	for _, text := range texts {
		find(text)
	}
	if found != "" {
		template.AddNote(
			fmt.Sprintf("a text reads the hostname of the pod with %q, which was %s and is %s", found, former, now),
			"check what the program does with the name; the rank is in ROLLCALL_RANK")
	}
}
