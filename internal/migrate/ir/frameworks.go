package ir

import (
	"regexp"
	"slices"
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
	case f.HasLauncher && (isLeader || suggested == gang.RoleLauncher):
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
