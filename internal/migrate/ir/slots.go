package ir

import (
	"fmt"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// Flags of a launcher with a number of processes: of each host, or of all hosts.
var (
	processesPerHostFlag = regexp.MustCompile(
		`(?:^|\s)(?:--?(?:npernode|ppn|perhost)[\s=]+|--map-by\s+ppr:|-pernode\s+)([0-9]+)\b`,
	)
	totalProcessesFlag = regexp.MustCompile(`(?:^|\s)(?:-np?|--np?|--num-proc)[\s=]+([0-9]+)\b`)
)

// InferSlotsPerWorker sets the number of processes on each of the hosts from the command of the launcher, or
// else from the accelerators of the first container of a worker if countsAccelerators is true. Rollcall cannot
// derive it from the limits of the launcher.
func (b *Gang) InferSlotsPerWorker(
	launcher *corev1.PodSpec, f source.Field, workers []corev1.Container, hosts int, countsAccelerators bool,
) {
	if b.RollcallAnnotations[gang.AnnotationSlotsPerWorker] != "" {
		return
	}
	var command string
	for _, c := range ListContainers(launcher) {
		command += JoinCommand(c) + " "
	}
	slots, reason := 1, "no command or limit contains the number"
	if m := processesPerHostFlag.FindStringSubmatch(command); m != nil {
		slots, reason = parseCount(m[1]), "it is in the command"
	} else if m := totalProcessesFlag.FindStringSubmatch(command); m != nil {
		slots = (parseCount(m[1]) + hosts - 1) / hosts
		reason = fmt.Sprintf("the command starts %s processes on %d hosts", m[1], hosts)
	} else if len(workers) > 0 && countsAccelerators && gang.CountAccelerators(workers[0].Resources) > 0 {
		slots, reason = int(gang.CountAccelerators(workers[0].Resources)), "it is the number of accelerators of a worker"
	}
	value := strconv.Itoa(min(max(slots, 1), gang.MaxProcessesPerPod))
	b.SetAnnotation(gang.AnnotationSlotsPerWorker, value)
	f.AddNoteWithOutcome(source.Changed, "annotation "+gang.AnnotationSlotsPerWorker+": "+value,
		"the hostfile contains the number of processes of each host; "+reason, "change the annotation if the number is wrong")
}

// parseCount returns a number, or 1 for a number that is too large.
func parseCount(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	return n
}
