package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// addScript adds the programs and assignments of a script. It adds nothing if the syntax is invalid.
func (c *Command) addScript(script string, depth int) {
	// Kubernetes replaces $(VAR) before the shell reads the script. The shell syntax for a variable
	// makes the parser treat the word as unknown, and not as the output of a command.
	script = envReference.ReplaceAllStringFunc(script, func(reference string) string {
		return "${" + strings.Trim(reference, "$()") + "}"
	})
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			return false // The script may never call the function.
		case *syntax.CmdSubst:
			_, isLookup := parseProgramLookup(n)
			return !isLookup
		case *syntax.CallExpr:
			c.addAssignments(n.Assigns)
			c.addCall(parseWords(n.Args), depth)
		case *syntax.DeclClause:
			c.addAssignments(n.Args)
		case *syntax.ForClause, *syntax.WhileClause:
			c.MayRepeat = true
		case *syntax.IfClause, *syntax.CaseClause, *syntax.TestClause, *syntax.ArithmCmd:
			c.MayBranch = true
		case *syntax.Stmt:
			c.MayRepeat = c.MayRepeat || n.Background || n.Coprocess
		}
		return true
	})
}

func (c *Command) addAssignments(assigns []*syntax.Assign) {
	for _, a := range assigns {
		if a.Name == nil || a.Value == nil {
			continue
		}
		if c.assignments == nil {
			c.assignments = map[string]int{}
		}
		c.assignments[a.Name.Value]++
		if w := parseWord(a.Value); w.Known {
			c.Assignments = append(c.Assignments, Assignment{Name: a.Name.Value, Value: w.Text})
		}
	}
}

func parseWords(words []*syntax.Word) []Argument {
	var args []Argument
	for _, w := range words {
		args = append(args, parseWord(w))
	}
	return args
}

// parseWord returns a word of a script without quotes.
func parseWord(w *syntax.Word) Argument {
	var text strings.Builder
	var variable string
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
			case *syntax.CmdSubst:
				name, ok := parseProgramLookup(p)
				if !ok {
					return false
				}
				text.WriteString(name)
			case *syntax.ParamExp:
				variable = nameOfVariable(p)
				return false
			default:
				return false
			}
		}
		return true
	}
	known := add(w.Parts)
	return Argument{Text: text.String(), Known: known, Variable: variable}
}

// nameOfVariable returns the name of a variable. It is empty if an operator changes the value.
func nameOfVariable(p *syntax.ParamExp) string {
	isChanged := p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Exp != nil
	if isChanged || p.Param == nil {
		return ""
	}
	return p.Param.Value
}

// parseProgramLookup returns the name of the program whose path a command substitution prints, such
// as in "python $(which torchrun)".
func parseProgramLookup(s *syntax.CmdSubst) (string, bool) {
	if len(s.Stmts) != 1 {
		return "", false
	}
	call, ok := s.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) < 2 || len(call.Args) > 3 {
		return "", false
	}
	for _, w := range call.Args { // A nested substitution would be parsed once for each level.
		if w.Lit() == "" {
			return "", false
		}
	}
	name := call.Args[len(call.Args)-1].Lit()
	switch lookup := call.Args[0].Lit(); {
	case lookup == "which" && len(call.Args) == 2:
		return name, true
	case lookup == "command" && len(call.Args) == 3 && call.Args[1].Lit() == "-v":
		return name, true
	}
	return "", false
}
