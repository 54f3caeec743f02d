package vet

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is the parsed command of a container. The zero value is an unknown command, for example
// the command of the image.
type command struct {
	// programs are the programs that the command runs, in the order of the text.
	programs []program
	// assignments are the variables that a script sets to literal values.
	assignments []assignment
	// mayRepeat is true for a script with loops or background commands. A program may then run more
	// often than it occurs in the text.
	mayRepeat bool
}

// program is a call of a program.
type program struct {
	// name is the base name of the executable.
	name string
	// args are the arguments without the name.
	args []argument
}

// argument is a word of a command line.
type argument struct {
	text string
	// known is false for a word with a variable or the output of a command, such as $RANK. The text
	// is then incomplete.
	known bool
}

// assignment is an assignment of a literal value to a variable.
type assignment struct{ name, value string }

// envReference matches references to variables in the syntax of Kubernetes.
var envReference = regexp.MustCompile(`\$\([A-Za-z0-9_.-]+\)`)

func hasEnvReference(text string) bool { return envReference.MatchString(text) }

// parseCommand parses the command and arguments of a container. It parses a script that is passed
// to a shell with -c like the shell. It returns the zero value if the command is in the image or
// cannot be parsed.
func parseCommand(commandLine, args []string) command {
	if len(commandLine) == 0 {
		return command{}
	}
	var words []argument
	for _, text := range slices.Concat(commandLine, args) {
		words = append(words, argument{text: text, known: !hasEnvReference(text)})
	}
	var c command
	c.addCall(words)
	return c
}

// addCall adds the program that a command line starts. For a shell with -c it adds the programs and
// assignments of the script.
func (c *command) addCall(words []argument) {
	p, ok := unwrapProgram(words)
	if !ok {
		return
	}
	script, ok := p.shellScript()
	if !ok {
		c.programs = append(c.programs, p)
		return
	}
	inner := parseScript(script)
	c.programs = append(c.programs, inner.programs...)
	c.assignments = append(c.assignments, inner.assignments...)
	c.mayRepeat = c.mayRepeat || inner.mayRepeat
}

var shells = []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}

// shellScript returns the script of a shell that is started with -c. Other letters can follow the c,
// such as in "bash -cx". It returns false for other programs, for a shell that runs a file, and for
// a script with shell variables.
func (p program) shellScript() (string, bool) {
	if !slices.Contains(shells, p.name) {
		return "", false
	}
	readsScript := false
	for i := 0; i < len(p.args); i++ {
		text := p.args[i].text
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
			isComplete := p.args[i].known || hasEnvReference(text)
			return text, readsScript && isComplete
		}
	}
	return "", false
}

// parseScript finds the programs and assignments of a script. It returns the zero value if the
// syntax is invalid.
func parseScript(script string) command {
	// Kubernetes replaces $(VAR) before the shell reads the script. The shell syntax for a variable
	// makes the parser treat the word as unknown, and not as the output of a command.
	script = envReference.ReplaceAllStringFunc(script, func(reference string) string {
		return "${" + strings.Trim(reference, "$()") + "}"
	})
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return command{}
	}
	var c command
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			return false // The script may never call the function.
		case *syntax.CallExpr:
			c.addAssignments(n.Assigns)
			var words []argument
			for _, w := range n.Args {
				words = append(words, parseWord(w))
			}
			c.addCall(words)
		case *syntax.DeclClause:
			c.addAssignments(n.Args)
		case *syntax.ForClause, *syntax.WhileClause:
			c.mayRepeat = true
		case *syntax.Stmt:
			c.mayRepeat = c.mayRepeat || n.Background || n.Coprocess
		}
		return true
	})
	return c
}

func (c *command) addAssignments(assigns []*syntax.Assign) {
	for _, a := range assigns {
		if a.Name == nil || a.Value == nil {
			continue
		}
		if w := parseWord(a.Value); w.known {
			c.assignments = append(c.assignments, assignment{name: a.Name.Value, value: w.text})
		}
	}
}

// parseWord returns a word of a script without quotes.
func parseWord(w *syntax.Word) argument {
	var text strings.Builder
	var add func([]syntax.WordPart) bool
	add = func(parts []syntax.WordPart) bool {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				text.WriteString(strings.ReplaceAll(p.Value, "\\\n", ""))
			case *syntax.SglQuoted:
				text.WriteString(p.Value)
			case *syntax.DblQuoted:
				if !add(p.Parts) {
					return false
				}
			default:
				return false
			}
		}
		return true
	}
	known := add(w.Parts)
	return argument{text: text.String(), known: known}
}

// wrapperPrograms start the program in their arguments. None of their options has its value in a
// separate argument.
var wrapperPrograms = []string{
	"exec", "env", "nohup", "time", "tini", "dumb-init", "catatonit", "command", "stdbuf", "ionice", "setsid",
}

// wrapperSubcommands are programs that start another program after options and values of their
// own. If the list of a program is not empty, its first argument must be one of the subcommands.
var wrapperSubcommands = map[string][]string{
	"timeout": nil, "numactl": nil, "taskset": nil, "chrt": nil, "nice": nil, "sudo": nil, "gosu": nil, "su-exec": nil,
	"xvfb-run": nil, "ddtrace-run": nil, "opentelemetry-instrument": nil,
	"nsys": {"profile", "launch"}, "ncu": nil, "rocprof": nil, "rocprofv3": nil, "perf": {"record", "stat"},
	"py-spy": {"record"}, "memray": {"run"}, "strace": nil,
	"conda": {"run"}, "mamba": {"run"}, "micromamba": {"run"},
	"uv": {"run"}, "poetry": {"run"}, "pipenv": {"run"}, "pixi": {"run"}, "pdm": {"run"}, "hatch": {"run"},
}

// startedPrograms are programs that are recognized among the arguments of a wrapper.
var startedPrograms = slices.Concat(shells, launcherPrograms, wrapperPrograms, []string{"sshd", "sleep", "tail"})

// launcherPrograms start the processes of a training program.
var launcherPrograms = []string{"torchrun", "mpirun", "mpiexec", "horovodrun", "deepspeed", "accelerate"}

// unwrapProgram returns the program that a command line starts, without wrappers such as exec, env
// and timeout. It returns false if the program is unknown.
func unwrapProgram(words []argument) (program, bool) {
	for len(words) > 0 && words[0].known {
		p := program{name: path.Base(words[0].text), args: words[1:]}
		switch {
		case slices.Contains(wrapperPrograms, p.name):
			words = p.args
			for len(words) > 0 && isWrapperArgument(p.name, words[0]) {
				words = words[1:]
			}
		default:
			i := p.findStartedProgram()
			if i < 0 {
				return p, true
			}
			words = p.args[i:]
		}
	}
	return program{}, false
}

// findStartedProgram returns the position of the program among the arguments of a wrapper with
// options. It returns -1 for other programs, and if none of the arguments is a known program.
func (p program) findStartedProgram() int {
	subcommands, isWrapper := wrapperSubcommands[p.name]
	if !isWrapper {
		return -1
	}
	if len(subcommands) > 0 && (len(p.args) == 0 || !slices.Contains(subcommands, p.args[0].text)) {
		return -1
	}
	return slices.IndexFunc(p.args, func(a argument) bool {
		name := path.Base(a.text)
		_, isNested := wrapperSubcommands[name]
		isStarted := isNested || slices.Contains(startedPrograms, name) || pythonPattern.MatchString(name)
		return a.known && isStarted
	})
}

// isWrapperArgument reports whether the argument is an option of the wrapper or a variable of env.
func isWrapperArgument(wrapper string, a argument) bool {
	isVariable := wrapper == "env" && strings.Contains(a.text, "=")
	return a.known && (strings.HasPrefix(a.text, "-") || isVariable)
}

var pythonPattern = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)

// parsePython returns the module or script that a Python interpreter runs, and its arguments. All
// are empty if the interpreter runs something else. It returns false for other programs.
func (p program) parsePython() (module, script string, args []argument, ok bool) {
	if !pythonPattern.MatchString(p.name) {
		return "", "", nil, false
	}
	for i := 0; i < len(p.args); i++ {
		a := p.args[i]
		switch {
		case !a.known:
			return "", "", nil, true
		case a.text == "-m" && i+1 < len(p.args):
			return p.args[i+1].text, "", p.args[i+2:], true
		case a.text == "-W" || a.text == "-X":
			i++
		case strings.HasPrefix(a.text, "-") && a.text != "-":
			if a.text == "-c" {
				return "", "", nil, true
			}
		default:
			return "", a.text, p.args[i+1:], true
		}
	}
	return "", "", nil, true
}
