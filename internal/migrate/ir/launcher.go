package ir

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
	"rollcall.training/internal/migrate/source"
)

// ConvertWorkerCommand removes the command of a launcher's worker that only waits or runs sshd, because
// a worker without a command runs Rollcall's sshd. Another command stays. Rollcall vet reports the
// commands, probes and hooks with which the launcher does not reach the worker.
func ConvertWorkerCommand(spec *corev1.PodSpec, training int, template source.Field) {
	c, f := &spec.Containers[training], template.At("spec", "containers").Item(training)
	words := slices.Concat(c.Command, c.Args)
	switch {
	case len(words) == 0:
	case !IsIdleCommand(words) && sshdStart.MatchString(strings.Join(words, " ")):
		f.AddNote("the command is kept: its sshd has the port and the keys of the gang, unless options override them, "+
			"but the processes that the launcher starts do not have the variables of the container",
			"remove the command if the worker needs only sshd")
	case !IsIdleCommand(words):
		f.AddNote("the command is kept, and the launcher connects to the worker only if the command starts sshd",
			"end the command with: exec /bin/sh /etc/rollcall/ssh/sshd; or remove it, so that the worker runs Rollcall's sshd")
	default:
		f.Get("args").MarkHandled()
		at := f.Get("command")
		if !at.Exists() {
			at = f.Get("args")
		}
		at.MarkLeftOut("it only waits or runs sshd, and a worker without a command runs Rollcall's sshd")
		c.Command, c.Args = nil, nil
	}
}

// sshdStart matches the start of sshd.
var sshdStart = regexp.MustCompile(`\bsshd\b|(service ssh|init\.d/ssh) start`)

// IsIdleCommand reports whether a command does nothing except wait or run sshd, including the usual
// preparations of sshd.
func IsIdleCommand(words []string) bool {
	programs := command.Parse(words, nil).Programs
	return len(programs) > 0 && !slices.ContainsFunc(programs, func(p command.Program) bool { return !isIdleProgram(p) })
}

// isIdleProgram reports whether a program waits, runs sshd or prepares sshd.
func isIdleProgram(p command.Program) bool {
	var words []string
	for _, arg := range p.Args {
		words = append(words, arg.Text)
	}
	args := strings.Join(words, " ")
	switch p.Name {
	case "sleep", "sshd", "pause", "set", "true", ":":
		return true
	case "tail":
		return strings.HasSuffix(args, "/dev/null")
	case "mkdir", "chmod", "chown":
		return strings.Contains(args, "sshd") || strings.Contains(args, ".ssh")
	case "ssh-keygen":
		return args == "-A"
	case "service", "rc-service":
		return args == "ssh start" || args == "sshd start"
	case "ssh":
		return args == "start" // /etc/init.d/ssh
	}
	return false
}

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
		slots, _ = strconv.Atoi(m[1]) // the maximum if it is larger
		reason = "it is in the command"
	} else if m := totalProcessesFlag.FindStringSubmatch(command); m != nil {
		total, _ := strconv.Atoi(m[1])
		slots = (total + hosts - 1) / hosts
		reason = fmt.Sprintf("the command starts %s processes on %d hosts", m[1], hosts)
	} else if len(workers) > 0 && countsAccelerators && gang.CountAccelerators(workers[0].Resources) > 0 {
		slots, reason = int(gang.CountAccelerators(workers[0].Resources)), "it is the number of accelerators of a worker"
	}
	value := strconv.Itoa(min(max(slots, 1), gang.MaxProcessesPerPod))
	b.SetAnnotation(gang.AnnotationSlotsPerWorker, value)
	f.AddNoteWithOutcome(source.Changed, "annotation "+gang.AnnotationSlotsPerWorker+": "+value,
		"the hostfile contains the number of processes of each host; "+reason, "change the annotation if the number is wrong")
}
