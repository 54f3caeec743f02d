// Package detection finds the framework of programs that have no label, for migrations and for checks of manifests.
//
// The evidence is data of the frameworks: their launchers and their [gang.Signature].
package detection

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
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

// FindFramework returns the framework of the programs in the pods, and what it was detected from. Both
// are the zero value if nothing indicates a framework.
func FindFramework(frameworks gang.Frameworks, pods ...*corev1.PodSpec) (framework gang.Framework, evidence string) {
	signatures := compileSignatures(frameworks)
	containers := listContainers(pods...)
	for _, find := range evidenceKinds {
		for _, s := range signatures {
			for i := range containers {
				if evidence := find(s, &containers[i]); evidence != "" {
					return s.framework, evidence
				}
			}
		}
	}
	return gang.Framework{}, ""
}

// FindLauncher returns the launcher that a container of the pod starts, and its framework. Both are the zero value
// if no container starts a launcher.
func FindLauncher(frameworks gang.Frameworks, pod *corev1.PodSpec) (framework gang.Framework, launcher string) {
	containers := listContainers(pod)
	for _, s := range listSignatures(frameworks) {
		for i := range containers {
			if launcher := s.scanLauncher(&containers[i]); launcher != "" {
				return s.framework, launcher
			}
		}
	}
	return gang.Framework{}, ""
}

func (s signature) findLauncher(c *corev1.Container) string { return describeWord(s.scanLauncher(c)) }

func (s signature) findWord(c *corev1.Container) string {
	return describeWord(s.words.FindString(Texts(c)[0]))
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
	for _, text := range Texts(c) {
		if name := pattern.FindString(text); name != "" {
			return "the variable " + name
		}
	}
	return ""
}

// Texts returns the command of a container, and its variables as NAME=value. The words of the command are joined,
// because patterns match several of them: [torchrun, train.py].
func Texts(c *corev1.Container) []string {
	texts := []string{strings.Join(slices.Concat(c.Command, c.Args), " ")}
	for _, e := range c.Env {
		texts = append(texts, e.Name+"="+e.Value)
	}
	return texts
}

func listContainers(pods ...*corev1.PodSpec) []corev1.Container {
	var out []corev1.Container
	for _, pod := range pods {
		out = slices.Concat(out, pod.InitContainers, pod.Containers)
	}
	return out
}
