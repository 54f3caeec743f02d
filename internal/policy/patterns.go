package policy

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

const (
	// maxPatternBytes is the maximum size of the regular expression of a label.
	maxPatternBytes = 256
	// maxInstructions is the maximum number of instructions of all regular expressions of a file. Each needs about 90
	// bytes, and a pattern of 256 bytes can have 230,000. Anybody who reaches the webhook can send a file.
	maxInstructions = 500_000
	// instructionsOfPattern is what a short pattern needs.
	instructionsOfPattern = 100
)

// compilePattern returns the expression for an entire value, or nil after it reported a mistake.
func (r *reader) compilePattern(path, pattern string) *regexp.Regexp {
	if len(pattern) > maxPatternBytes {
		r.add(path, "has %d bytes; at most %d are allowed", len(pattern), maxPatternBytes)
		return nil
	}
	if !r.checkPattern(path, pattern) {
		return nil
	}
	compiled, err := regexp.Compile(`^(?:` + pattern + `)$`)
	if err != nil {
		r.add(path, "is not a regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return compiled
}

// checkPattern returns false, after it reported a mistake, if the regular expressions of the file need too much memory
// with another one. An invalid pattern needs none.
func (r *reader) checkPattern(path, pattern string) bool {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return true
	}
	r.instructions += instructionsOfPattern + countInstructions(parsed)
	if r.instructions > maxInstructions {
		r.add(path, "the regular expressions of the file need more than %d instructions; use fewer or smaller repetitions",
			maxInstructions)
		return false
	}
	return true
}

// countInstructions returns about the number of instructions of a program, up to more than [maxInstructions].
func countInstructions(pattern *syntax.Regexp) int {
	n := 1 + len(pattern.Rune)
	for _, sub := range pattern.Sub {
		n += countInstructions(sub)
	}
	if pattern.Op == syntax.OpRepeat {
		n *= max(pattern.Min, pattern.Max, 1)
	}
	return min(n, maxInstructions+1)
}

// patternFunctions are the functions of CEL with a regular expression, which is the first argument after the text.
var patternFunctions = map[string]bool{"matches": true, "find": true, "findAll": true}

// checkPatternsOfExpression is checkPattern for the patterns in an expression, which CEL compiles with it. A pattern
// that is not a literal is a mistake: CEL would compile it for each gang without a bound, and a user could choose it.
func (r *reader) checkPatternsOfExpression(path string, ast *cel.Ast) bool {
	valid := true
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if !valid || e.Kind() != celast.CallKind || !patternFunctions[e.AsCall().FunctionName()] {
			return
		}
		args := e.AsCall().Args()
		if !e.AsCall().IsMemberFunction() && len(args) > 0 {
			args = args[1:]
		}
		if len(args) == 0 {
			return
		}
		if args[0].Kind() != celast.LiteralKind {
			r.add(path, "the regular expression of %s must be a literal text; compare other texts by ==, contains, "+
				"startsWith or endsWith", e.AsCall().FunctionName())
			valid = false
		} else if pattern, ok := args[0].AsLiteral().(types.String); ok {
			valid = r.checkPattern(path, string(pattern))
		}
	}))
	return valid
}
