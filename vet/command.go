package vet

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is what a container starts, as far as its text tells.
type command struct {
	// programs are what is run, in the order of the text; none where the image decides.
	programs []program
	// assigned are the variables that a script sets, the literal values alone.
	assigned []assignment
	// repeats is true for a script with loops or background commands, in which a program
	// may run more often than it is written.
	repeats bool
}

// program is one that is run: its name without a folder, and its arguments. A word that
// is not known before the container runs, such as $RANK, is the zero value.
type program struct {
	name string
	args []word
}

type word struct {
	text string
	// known is false for a word that holds a variable or the output of a command.
	known bool
}

type assignment struct{ name, value string }

// reference is how Kubernetes refers to a variable in commands and values.
var reference = regexp.MustCompile(`\$\([A-Za-z0-9_.-]+\)`)

func refers(text string) bool { return reference.MatchString(text) }

// commandOf reads the command of a container. Scripts that are handed to a shell are
// parsed as the shell does; where that fails, nothing is known.
func commandOf(argv, args []string) command {
	if len(argv) == 0 {
		return command{} // the image's own, to which args are added
	}
	var words []word
	for _, text := range slices.Concat(argv, args) {
		words = append(words, word{text: text, known: !refers(text)})
	}
	if script, ok := shellScript(words); ok {
		return parseScript(script)
	}
	if p, ok := unwrap(words); ok {
		return command{programs: []program{p}}
	}
	return command{}
}

var shells = []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}

// shellScript is the script of a shell that is started with -c.
func shellScript(words []word) (string, bool) {
	if len(words) < 3 || !slices.Contains(shells, path.Base(words[0].text)) {
		return "", false
	}
	for i := 1; i < len(words)-1; i++ {
		option := words[i].text
		if !strings.HasPrefix(option, "-") && !slices.Contains([]string{"pipefail", "errexit", "nounset", "xtrace"}, option) {
			return "", false // a file
		}
		if !strings.HasPrefix(option, "--") && strings.HasSuffix(option, "c") && strings.HasPrefix(option, "-") {
			return words[i+1].text, true
		}
	}
	return "", false
}

// parseScript finds the programs and assignments of a script.
func parseScript(script string) command {
	// Kubernetes puts its own references in before the shell sees them.
	script = reference.ReplaceAllStringFunc(script, func(ref string) string { return "${" + strings.Trim(ref, "$()") + "}" })
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return command{}
	}
	var c command
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			return false // called, or not
		case *syntax.CallExpr:
			c.assign(n.Assigns)
			var words []word
			for _, w := range n.Args {
				words = append(words, literal(w))
			}
			if p, ok := unwrap(words); ok {
				c.programs = append(c.programs, p)
			}
		case *syntax.DeclClause:
			c.assign(n.Args)
		case *syntax.ForClause, *syntax.WhileClause:
			c.repeats = true
		case *syntax.Stmt:
			c.repeats = c.repeats || n.Background || n.Coprocess
		}
		return true
	})
	return c
}

func (c *command) assign(all []*syntax.Assign) {
	for _, a := range all {
		if a.Name == nil || a.Value == nil {
			continue
		}
		if w := literal(a.Value); w.known {
			c.assigned = append(c.assigned, assignment{name: a.Name.Value, value: w.text})
		}
	}
}

// literal is a word of a script, without its quotes.
func literal(w *syntax.Word) word {
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
	return word{text: text.String(), known: known}
}

// wrappers start the program that their arguments name, and have no options of their own
// that take a value in another argument.
var wrappers = []string{"exec", "env", "nohup", "time", "tini", "dumb-init", "catatonit", "command", "stdbuf", "ionice"}

// unwrap finds the program that a line of words starts in the end. It is false where
// that cannot be told.
func unwrap(words []word) (program, bool) {
	for len(words) > 0 && words[0].known {
		name := path.Base(words[0].text)
		words = words[1:]
		if !slices.Contains(wrappers, name) {
			return program{name: name, args: words}, true
		}
		for len(words) > 0 && words[0].known && (strings.HasPrefix(words[0].text, "-") || name == "env" && strings.Contains(words[0].text, "=")) {
			words = words[1:]
		}
	}
	return program{}, false
}

var pythonName = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)

// python splits the arguments of a Python interpreter into the module or script that it
// runs and what that is given. It is false for another program.
func (p program) python() (module, script string, args []word, ok bool) {
	if !pythonName.MatchString(p.name) {
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
