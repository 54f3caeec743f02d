package ir

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
	"rollcall.training/internal/detection"
	"rollcall.training/internal/migrate/source"
)

// ReportDetection reports a detected framework.
func ReportDetection(template source.Field, framework, evidence string) {
	template.AddNoteWithOutcome(source.Changed, "label "+gang.LabelFramework+": "+framework,
		"no label names the framework; it was detected from "+evidence,
		"if it is wrong, name the framework with --framework")
}

// DetectFramework returns the framework that the variables and commands of pods imply, and reports it. Programs of no
// known framework form a generic gang. Spec is the place of the gang in the manifest.
func DetectFramework(frameworks gang.Frameworks, spec source.Field, pods ...*corev1.PodSpec) string {
	framework, evidence := detection.FindFramework(frameworks, pods...)
	if evidence != "" {
		ReportDetection(spec, framework.Name, evidence)
		return framework.Name
	}
	name := frameworks.Fallback().Name
	spec.AddNoteWithOutcome(source.Changed, "label "+gang.LabelFramework+": "+name,
		"no variable or command belongs to a framework; every pod gets its rank and the addresses of all roles",
		"for the variables of a framework, name it with --framework")
	return name
}

// CommandWords returns the words of a container's command.
func CommandWords(c *corev1.Container) []string { return slices.Concat(c.Command, c.Args) }

// Roles that names of jobs suggest.
const (
	roleMaster = "master"
	roleWorker = "worker"
	roleChief  = "chief"
	roleServer = "ps"
)

// roleWords map common names of jobs and tasks, in the singular, to roles.
var roleWords = map[string]string{
	gang.RoleLauncher: gang.RoleLauncher,
	roleMaster:        roleMaster, "leader": roleMaster, "coordinator": roleMaster, "head": roleMaster,
	"scheduler": roleMaster, "tracker": roleMaster, roleChief: roleChief,
	roleWorker: roleWorker, "node": roleWorker, "trainer": roleWorker, "replica": roleWorker, "slice": roleWorker,
	"pod": roleWorker, roleServer: roleServer, "parameterserver": roleServer, "server": roleServer,
	"pserver": roleServer, "evaluator": "evaluator", "eval": "evaluator",
}

// SuggestRole returns the role that the name of a job or a task suggests, or "". The name can start with the
// name of a framework.
func SuggestRole(frameworks gang.Frameworks, name string) string {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	prefixes := append(frameworks.Names(), "")
	for _, f := range frameworks {
		prefixes = append(prefixes, f.ShortName)
	}
	for _, prefix := range prefixes {
		word := strings.TrimPrefix(name, prefix)
		for _, singular := range []string{word, strings.TrimSuffix(word, "s")} {
			if role, ok := roleWords[singular]; ok {
				return role
			}
		}
	}
	return ""
}

// FrameworkRole returns the framework's name of a suggested role, or "" if the framework does not have it.
func FrameworkRole(f gang.Framework, suggested string) string {
	has := func(name string) bool {
		return slices.ContainsFunc(f.Roles, func(r gang.Role) bool { return r.Name == name })
	}
	switch isLeader := suggested == roleMaster || suggested == roleChief; {
	case suggested == "":
		return ""
	case f.HasLauncher && isLeader:
		return gang.RoleLauncher
	case isLeader && has(roleChief): // TensorFlow's name of the master since version 1.4
		return roleChief
	case isLeader && has(roleMaster):
		return roleMaster
	case has(suggested):
		return suggested
	case suggested == roleServer:
		if servers := slices.IndexFunc(f.Roles, func(r gang.Role) bool { return r.LongRunning }); servers >= 0 {
			return f.Roles[servers].Name
		}
	case suggested != "evaluator" && !has(roleChief) && !has(roleMaster):
		return roleWorker // all ranks are equal
	}
	return ""
}

// ConvertWorkerCommand removes the command of a launcher's worker that only waits or runs sshd, because
// a worker without a command runs Rollcall's sshd or agent. Another command stays. Rollcall vet reports the
// commands, probes and hooks with which the launcher does not reach the worker.
func ConvertWorkerCommand(spec *corev1.PodSpec, training int, template source.Field, launch gang.LaunchMethod) {
	server, program, start := "sshd", "sshd", "exec /bin/sh /etc/rollcall/ssh/sshd"
	if launch == gang.LaunchAgent {
		server, program, start = "agent", "the agent", "exec /opt/rollcall/agent serve"
	}
	c, f := &spec.Containers[training], template.At("spec", "containers").Item(training)
	words := CommandWords(c)
	switch {
	case len(words) == 0:
	case launch != gang.LaunchAgent && !IsIdleCommand(words) &&
		slices.ContainsFunc(command.Parse(words, nil).Programs, runsSSHD):
		f.AddNote("the command is kept: its sshd has the port and the keys of the gang, unless options override them, "+
			"but the processes that the launcher starts do not have the variables of the container",
			"remove the command if the worker needs only sshd")
	case !IsIdleCommand(words):
		f.AddNote("the command is kept, and the launcher connects to the worker only if the command starts "+program,
			"end the command with: "+start+"; or remove it, so that the worker runs Rollcall's "+server)
	default:
		f.Get("args").MarkHandled()
		at := f.Get("command")
		if !at.Exists() {
			at = f.Get("args")
		}
		at.MarkLeftOut("it only waits or runs sshd, and a worker without a command runs Rollcall's " + server)
		c.Command, c.Args = nil, nil
	}
}

// IsIdleCommand reports whether a command does nothing except wait or run sshd, including the usual
// preparations of sshd.
func IsIdleCommand(words []string) bool {
	programs := command.Parse(words, nil).Programs
	return len(programs) > 0 && !slices.ContainsFunc(programs, func(p command.Program) bool {
		return !runsSSHD(p) && !idleProgram.MatchString(p.String())
	})
}

// idleProgram matches programs that wait or prepare sshd.
var idleProgram = regexp.MustCompile(
	`^(?:sleep|pause|set|true|:)(?: |$)|^tail .*/dev/null$|^(?:mkdir|chmod|chown) .*(?:sshd|\.ssh)|^ssh-keygen -A$`)

func runsSSHD(p command.Program) bool {
	_, ok := p.SSHD()
	return ok
}

// InferSlotsPerWorker sets the number of processes on each of the hosts from the command of the launcher, or
// else from the accelerators of the first container of a worker if countsAccelerators is true. Rollcall cannot
// derive it from the limits of the launcher.
func (b *Gang) InferSlotsPerWorker(
	launcher *corev1.PodSpec, f source.Field, workers []corev1.Container, hosts int, countsAccelerators bool,
) {
	if b.RollcallAnnotations[gang.AnnotationSlotsPerWorker] != "" {
		return
	}
	slots, reason := 1, "no command or limit contains the number"
	switch perHost, total := b.scanProcessCounts(launcher); {
	case perHost > 0:
		slots, reason = perHost, "it is in the command"
	case total > 0:
		slots = (total + hosts - 1) / hosts
		reason = fmt.Sprintf("the command starts %d processes on %d hosts", total, hosts)
	case len(workers) > 0 && countsAccelerators && gang.CountAccelerators(workers[0].Resources) > 0:
		slots, reason = int(gang.CountAccelerators(workers[0].Resources)), "it is the number of accelerators of a worker"
	}
	value := strconv.Itoa(min(max(slots, 1), gang.MaxProcessesPerPod))
	b.SetAnnotation(gang.AnnotationSlotsPerWorker, value)
	f.AddNoteWithOutcome(source.Changed, "annotation "+gang.AnnotationSlotsPerWorker+": "+value,
		"the hostfile contains the number of processes of each host; "+reason, "change the annotation if the number is wrong")
}

// scanProcessCounts returns the number of processes that a launcher starts on each host and on all hosts. A number
// that its command does not contain is 0.
func (b *Gang) scanProcessCounts(launcher *corev1.PodSpec) (perHost, total int) {
	add := func(scan func(names string) []command.ScannedFlag, l command.LauncherProgram) {
		for _, flag := range scan(l.HostProcessFlags) {
			perHost = cmp.Or(perHost, flag.Number())
		}
		for _, flag := range scan(l.ProcessFlags) {
			total = cmp.Or(total, flag.Number())
		}
	}
	for _, c := range ListContainers(launcher) {
		words := CommandWords(c)
		launches := b.Frameworks.Launchers().FindAll(command.Parse(words, nil))
		for _, launch := range launches {
			add(launch.ScanFlags, launch.LauncherProgram)
		}
		if len(launches) > 0 {
			continue
		}
		for _, l := range b.Frameworks.Launchers() { // a script of the user can pass its flags on
			add(func(names string) []command.ScannedFlag { return command.ScanFlags(words, names) }, l)
		}
	}
	return perHost, total
}
