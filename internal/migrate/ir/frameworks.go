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

// signature is how the programs of a framework are recognized in a container.
type signature struct {
	framework string
	// launchers are the programs and modules that start its processes, as [command.ScanLauncher] names them.
	launchers []string
	// variables match variables that only its programs read, and words the other words of its commands.
	variables, words *regexp.Regexp
	// sharedVariables match variables that programs of other frameworks read too.
	sharedVariables *regexp.Regexp
	// serverRole is the role of parameter servers if the framework has no role ps.
	serverRole string
}

// noMatch matches no text.
var noMatch = regexp.MustCompile(`$.^`)

// signatures are the signatures of all frameworks. The first one of the strongest evidence applies.
var signatures = []signature{
	{
		framework: "horovod", launchers: []string{"horovodrun"},
		variables: regexp.MustCompile(`\bHOROVOD_[A-Z_]+`), words: noMatch,
	},
	{framework: "deepspeed", launchers: []string{"deepspeed"}, variables: noMatch, words: noMatch},
	{
		framework: "mpi", launchers: []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"},
		variables: regexp.MustCompile(`\b(?:OMPI_MCA|PRTE_MCA|I_MPI_HYDRA)_\w+`), words: noMatch,
	},
	{
		framework: "tensorflow",
		variables: regexp.MustCompile(`\bTF_CONFIG\b`), words: regexp.MustCompile(`\btensorflow\b`),
	},
	{framework: "jax", variables: regexp.MustCompile(`\bJAX_[A-Z_]+`), words: regexp.MustCompile(`\bjax\b`)},
	{
		framework: "paddle", launchers: []string{"paddle.distributed.launch"}, serverRole: roleMaster,
		variables: regexp.MustCompile(`\bPADDLE_[A-Z_]+`), words: regexp.MustCompile(`\b(?:paddle\.distributed|fleetrun)\b`),
	},
	{framework: "lightgbm", variables: noMatch, words: regexp.MustCompile(`\blightgbm\b`)},
	{framework: "xgboost", variables: regexp.MustCompile(`\bDMLC_[A-Z_]+`), words: regexp.MustCompile(`\bxgboost\b`)},
	{
		framework: "pytorch",
		launchers: []string{
			"torchrun", "accelerate", "accelerate-launch", "composer", "colossalai", "torch_xla.distributed.xla_spawn",
		},
		variables:       regexp.MustCompile(`\bPET_[A-Z_]+`),
		words:           regexp.MustCompile(`\b(?:torchrun|torch\.distributed|pytorch)\b`),
		sharedVariables: regexp.MustCompile(`\b(?:MASTER_ADDR|MASTER_PORT)\b`),
	},
}

// evidenceKinds are the kinds of evidence for a framework, the strongest first. Each returns a description
// of what it found in a container, or "".
var evidenceKinds = []func(signature, *corev1.Container) string{
	signature.findLauncher, signature.findVariable, signature.findWord, signature.findSharedVariable,
}

// DetectFramework returns the framework of the programs in the pods, and what it was detected from. Both
// are empty if nothing indicates a framework.
func DetectFramework(pods ...*corev1.PodSpec) (framework, evidence string) {
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
	return "", ""
}

// DetectLauncher returns the launcher that a container of the pod starts, and its framework. Both are empty if no
// container starts a launcher.
func DetectLauncher(pod *corev1.PodSpec) (framework, launcher string) {
	for _, c := range ListContainers(pod) {
		for _, s := range signatures {
			if launcher := s.scanLauncher(c); launcher != "" {
				return s.framework, launcher
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
func Runs(framework string, pod *corev1.PodSpec) bool {
	s := findSignature(framework)
	return slices.ContainsFunc(ListContainers(pod), func(c *corev1.Container) bool {
		return slices.ContainsFunc(evidenceKinds, func(find func(signature, *corev1.Container) string) bool {
			return find(s, c) != ""
		})
	})
}

// RunsLauncher reports whether a container starts the launcher of one of the frameworks, which starts the
// processes of the other pods.
func RunsLauncher(frameworks gang.Frameworks, c *corev1.Container) bool {
	return slices.ContainsFunc(frameworks, func(f gang.Framework) bool {
		return f.HasLauncher && findSignature(f.Name).findLauncher(c) != ""
	})
}

// findSignature returns the signature of a framework, or one that matches nothing.
func findSignature(framework string) signature {
	for _, s := range signatures {
		if s.framework == framework {
			return s
		}
	}
	return signature{variables: noMatch, words: noMatch}
}

// findLauncher describes where a container starts a launcher of the framework.
func (s signature) findLauncher(c *corev1.Container) string {
	if launcher := s.scanLauncher(c); launcher != "" {
		return "the word " + launcher + " in the command"
	}
	return ""
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
		if launcher := command.ScanLauncher(words); slices.Contains(s.launchers, launcher) {
			return launcher
		}
	}
	return ""
}

func (s signature) findVariable(c *corev1.Container) string { return findVariable(c, s.variables) }

func (s signature) findSharedVariable(c *corev1.Container) string {
	if s.sharedVariables == nil {
		return ""
	}
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

func (s signature) findWord(c *corev1.Container) string {
	if word := s.words.FindString(JoinCommand(c)); word != "" {
		return "the word " + word + " in the command"
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
	gang.RoleLauncher: gang.RoleLauncher, "mpilauncher": gang.RoleLauncher,
	roleMaster: roleMaster, "leader": roleMaster, "coordinator": roleMaster, "head": roleMaster,
	"scheduler": roleMaster, "tracker": roleMaster, roleChief: roleChief,
	roleWorker: roleWorker, "node": roleWorker, "trainer": roleWorker, "replica": roleWorker, "slice": roleWorker,
	"pod": roleWorker, roleServer: roleServer, "parameterserver": roleServer, "server": roleServer,
	"pserver": roleServer, "evaluator": "evaluator", "eval": "evaluator",
}

// frameworkPrefixes are words with which names of jobs start, in addition to a role.
var frameworkPrefixes = []string{
	"", "pytorch", "torch", "tensorflow", "tf", "mpi", "horovod", "paddle", "xgboost", "jax",
}

// SuggestRole returns the role that the name of a job or a task suggests, or "".
func SuggestRole(name string) string {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for _, prefix := range frameworkPrefixes {
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
		return findSignature(f.Name).serverRole
	case suggested != "evaluator" && !has(roleChief) && !has(roleMaster):
		return roleWorker // all ranks are equal
	}
	return ""
}
