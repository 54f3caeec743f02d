package command

import (
	"regexp"
	"slices"
	"strings"
)

// Command is the parsed command of a container. The zero value is an unknown command, for example
// the command of the image.
type Command struct {
	// Programs are the programs that the command runs, in the order of the text.
	Programs []Program
	// Assignments are the variables that a script sets to literal values.
	Assignments []Assignment
	// MayRepeat is true for a script with loops or background commands. A program may then run more
	// often than it occurs in the text.
	MayRepeat bool
	// MayBranch is true for a script with conditions of the shell. A program or an assignment may then be skipped.
	MayBranch bool
	// assignments is the number of assignments to each variable, also of values that are not literal.
	assignments map[string]int
}

// Assigns reports whether a script assigns a variable.
func (c Command) Assigns(name string) bool { return c.assignments[name] > 0 }

// IsReassigned reports whether a script assigns a variable more than once.
func (c Command) IsReassigned(name string) bool { return c.assignments[name] > 1 }

// Program is a call of a program.
type Program struct {
	// Name is the base name of the executable.
	Name string
	// Args are the arguments without the name.
	Args []Argument
}

// String returns the known parts of the command line, separated by spaces.
func (p Program) String() string {
	words := []string{p.Name}
	for _, a := range p.Args {
		words = append(words, a.Text)
	}
	return strings.Join(words, " ")
}

// Argument is a word of a command line.
type Argument struct {
	Text string
	// Known is false for a word with a variable or the output of a command, such as $RANK. The text
	// then ends before the first of them.
	Known bool
	// Variable is the name of the variable of a shell before which the text ends. It is empty if an operator
	// changes the value of the variable, as in ${HOSTNAME##*-}.
	Variable string
}

// Assignment is an assignment of a literal value to a variable.
type Assignment struct{ Name, Value string }

// maxDepth is the number of shells within shells that Parse follows.
const maxDepth = 8

// envReference matches references to variables in the syntax of Kubernetes.
var envReference = regexp.MustCompile(`\$\([A-Za-z0-9_.-]+\)`)

// HasEnvReference reports whether the text refers to a variable in the syntax of Kubernetes.
func HasEnvReference(text string) bool { return envReference.MatchString(text) }

// Parse parses the command and arguments of a container. It parses a script that is passed to a
// shell with -c like the shell. It returns the zero value if the command is in the image or cannot
// be parsed.
func Parse(commandLine, args []string) Command {
	var c Command
	if len(commandLine) == 0 {
		return c
	}
	var words []Argument
	for _, text := range slices.Concat(commandLine, args) {
		words = append(words, Argument{Text: text, Known: !HasEnvReference(text)})
	}
	c.addCall(words, maxDepth)
	return c
}

// addCall adds the program that a command line starts. For a shell with -c it adds the programs and
// assignments of the script.
func (c *Command) addCall(words []Argument, depth int) {
	p, ok := unwrapProgram(words)
	if !ok {
		return
	}
	if script, ok := p.shellScript(); !ok {
		c.Programs = append(c.Programs, p)
	} else if depth > 0 {
		c.addScript(script, depth-1)
	}
}

var shells = []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}

// shellScript returns the script of a shell that is started with -c. Other letters can surround the
// c, such as in "bash -cux". It returns false for other programs, for a shell that runs a file, and
// for a script with shell variables.
func (p Program) shellScript() (string, bool) {
	if !slices.Contains(shells, p.Name) {
		return "", false
	}
	readsScript := false
	for i := 0; i < len(p.Args); i++ {
		text := p.Args[i].Text
		isLongOption := strings.HasPrefix(text, "--") && text != "--"
		isOption := len(text) > 1 && (text[0] == '-' || text[0] == '+') && text != "--"
		switch {
		case text == "--" || isLongOption:
		case isOption:
			readsScript = readsScript || strings.Contains(text, "c")
			if strings.ContainsAny(text, "oO") {
				i++ // The name of a shell option, such as in "bash -eo pipefail -c".
			}
		default:
			// Kubernetes replaces references before the shell starts, so the text is complete.
			isComplete := p.Args[i].Known || HasEnvReference(text)
			return text, readsScript && isComplete
		}
	}
	return "", false
}

var pythonPattern = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)

// Python is a call of a Python interpreter.
type Python struct {
	// Module is the module that the interpreter runs with -m, and Script is the script that it runs.
	// Both are empty if it runs something else, such as the text of an argument.
	Module, Script string
	// Args are the arguments of the module or the script.
	Args []Argument
}

// Python returns what a Python interpreter runs. It returns false for other programs.
func (p Program) Python() (Python, bool) {
	if !pythonPattern.MatchString(p.Name) {
		return Python{}, false
	}
	for i := 0; i < len(p.Args); i++ {
		a := p.Args[i]
		switch {
		case !a.Known || a.Text == "-c":
			return Python{}, true
		case a.Text == "-m" && i+1 < len(p.Args):
			return Python{Module: p.Args[i+1].Text, Args: p.Args[i+2:]}, true
		case a.Text == "-W" || a.Text == "-X":
			i++
		case strings.HasPrefix(a.Text, "-") && a.Text != "-":
		default:
			return Python{Script: a.Text, Args: p.Args[i+1:]}, true
		}
	}
	return Python{}, true
}
