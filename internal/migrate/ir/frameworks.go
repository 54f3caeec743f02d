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

// signature is the compiled [gang.Signature] of a framework.
type signature struct {
	framework gang.Framework
	// launchers are the words that start its launchers, and scanner finds the launchers of all frameworks.
	launchers []string
	scanner   command.Scanner
	// The patterns are set by compileSignatures.
	variables, words, sharedVariables *regexp.Regexp
}

// compileSignatures returns the signatures of the frameworks with their patterns.
func compileSignatures(frameworks gang.Frameworks) []signature {
	out := listSignatures(frameworks)
	for i := range out {
		s := &out[i]
		s.variables, s.words = compileWord(s.framework.Signature.Variables), compileWord(s.framework.Signature.Words)
		s.sharedVariables = compileWord(s.framework.Signature.SharedVariables)
	}
	return out
}

// listSignatures returns the signatures of the frameworks without their patterns, which launchers do not need. The
// first one of the strongest evidence applies. Frameworks with a launcher precede the others, whose programs a
// launcher can start. The last framework of a registry precedes the first, because it is the more special one.
func listSignatures(frameworks gang.Frameworks) []signature {
	var out []signature
	scanner := frameworks.Launchers().NewScanner()
	for _, hasLauncher := range []bool{true, false} {
		for _, f := range slices.Backward(frameworks) {
			if f.HasLauncher != hasLauncher {
				continue
			}
			s := signature{framework: f, scanner: scanner}
			for _, l := range f.Launchers {
				s.launchers = append(append(s.launchers, l.Name), l.Programs...)
			}
			out = append(out, s)
		}
	}
	return out
}

// compileWord returns a pattern of complete words; one that matches nothing for an empty text.
func compileWord(text string) *regexp.Regexp {
	if text == "" {
		return regexp.MustCompile(`$.^`)
	}
	return regexp.MustCompile(`\b(?:` + text + `)\b`)
}

// evidenceKinds are the kinds of evidence for a framework, the strongest first. Each returns a description
// of what it found in a container, or "".
var evidenceKinds = []func(signature, *corev1.Container) string{
	signature.findLauncher, signature.findVariable, signature.findWord, signature.findSharedVariable,
}

// DetectFramework returns the framework of the programs in the pods, and what it was detected from. Both
// are the zero value if nothing indicates a framework.
func DetectFramework(frameworks gang.Frameworks, pods ...*corev1.PodSpec) (framework gang.Framework, evidence string) {
	signatures := compileSignatures(frameworks)
	for _, find := range evidenceKinds {
		for _, s := range signatures {
			for _, pod := range pods {
				for _, c := range ListContainers(pod) {
					if evidence := find(s, c); evidence != "" {
						return s.framework, evidence
					}
				}
			}
		}
	}
	return gang.Framework{}, ""
}

// DetectLauncher returns the launcher that a container of the pod starts, and its framework. Both are empty if no
// container starts a launcher.
func DetectLauncher(frameworks gang.Frameworks, pod *corev1.PodSpec) (framework, launcher string) {
	signatures := listSignatures(frameworks)
	for _, c := range ListContainers(pod) {
		for _, s := range signatures {
			if launcher := s.scanLauncher(c); launcher != "" {
				return s.framework.Name, launcher
			}
		}
	}
	return "", ""
}

// ReportDetection reports a detected framework.
func ReportDetection(template source.Field, framework, evidence string) {
	template.AddNoteWithOutcome(source.Changed, "label "+gang.LabelFramework+": "+framework,
		"no label names the framework; it was detected from "+evidence,
		"if it is wrong, name the framework with --framework")
}

// Runs reports whether anything in a pod indicates the framework.
func Runs(frameworks gang.Frameworks, framework string, pod *corev1.PodSpec) bool {
	isOther := func(s signature) bool { return s.framework.Name != framework }
	for _, s := range slices.DeleteFunc(compileSignatures(frameworks), isOther) {
		for _, c := range ListContainers(pod) {
			if slices.ContainsFunc(evidenceKinds, func(find func(signature, *corev1.Container) string) bool {
				return find(s, c) != ""
			}) {
				return true
			}
		}
	}
	return false
}

// RunsLauncher reports whether a container of the pod starts the launcher of one of the frameworks, which starts
// the processes of the other pods.
func RunsLauncher(frameworks gang.Frameworks, pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(listSignatures(frameworks), func(s signature) bool {
		return s.framework.HasLauncher && slices.ContainsFunc(ListContainers(pod), func(c *corev1.Container) bool {
			return s.scanLauncher(c) != ""
		})
	})
}

func (s signature) findLauncher(c *corev1.Container) string { return describeWord(s.scanLauncher(c)) }

func (s signature) findWord(c *corev1.Container) string {
	return describeWord(s.words.FindString(JoinCommand(c)))
}

func describeWord(word string) string {
	if word == "" {
		return ""
	}
	return "the word " + word + " in the command"
}

// scanLauncher looks for launchers in the command, and in variables that hold a command line.
func (s signature) scanLauncher(c *corev1.Container) string {
	commands := [][]string{slices.Concat(c.Command, c.Args)}
	for _, e := range c.Env {
		if strings.ContainsAny(e.Value, " \n") {
			commands = append(commands, []string{e.Value})
		}
	}
	for _, words := range commands {
		if launcher := s.scanner.Scan(words); slices.Contains(s.launchers, launcher) {
			return launcher
		}
	}
	return ""
}

func (s signature) findVariable(c *corev1.Container) string { return findVariable(c, s.variables) }

func (s signature) findSharedVariable(c *corev1.Container) string {
	return findVariable(c, s.sharedVariables)
}

// findVariable looks for the name of a variable in the variables and texts of a container.
func findVariable(c *corev1.Container, pattern *regexp.Regexp) string {
	texts := []string{JoinCommand(c)}
	for _, e := range c.Env {
		texts = append(texts, e.Name+"="+e.Value)
	}
	for _, text := range texts {
		if name := pattern.FindString(text); name != "" {
			return "the variable " + name
		}
	}
	return ""
}

// JoinCommand returns the command line of a container, because patterns match several words of it.
func JoinCommand(c *corev1.Container) string {
	return strings.Join(slices.Concat(c.Command, c.Args), " ")
}

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
	words := slices.Concat(c.Command, c.Args)
	switch {
	case len(words) == 0:
	case launch != gang.LaunchAgent && !IsIdleCommand(words) && sshdStart.MatchString(strings.Join(words, " ")):
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
