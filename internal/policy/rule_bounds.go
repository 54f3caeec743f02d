package policy

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"rollcall.training/gang"
)

// growingFunctions return values that can be much larger than their arguments, for a constant cost in CEL.
var growingFunctions = []string{"replace", "format", "strings.quote"}

// accumulator is the variable that the macros of CEL add. Expressions cannot name it.
const accumulator = "@result"

// hasBoundedValues reports whether the values of an expression are not much larger than its text and the gang.
// Otherwise, CEL can need any time and memory for one call, before it counts the cost. Anybody who reaches the webhook
// can send a file, so such an expression is not evaluated when it is read. A value grows exponentially if it is put
// into a larger one again and again: [a+a].exists(b, [b+b].exists(c, ...)).
func hasBoundedValues(ast *cel.Ast) bool {
	root := celast.NavigateAST(ast.NativeRep())
	isUnbounded := func(e celast.NavigableExpr) bool {
		return e.Kind() == celast.CallKind && slices.Contains(growingFunctions, e.AsCall().FunctionName())
	}
	all := celast.MatchDescendants(root, celast.AllMatcher())
	if slices.ContainsFunc(all, isUnbounded) {
		return false
	}
	variables := map[string]bool{}
	for _, e := range all {
		if e.Kind() == celast.ComprehensionKind {
			c := e.AsComprehension()
			variables[c.IterVar()], variables[c.IterVar2()], variables[c.AccuVar()] = true, true, true
		}
	}
	delete(variables, accumulator)
	return !slices.ContainsFunc(all, func(e celast.NavigableExpr) bool {
		return e.Kind() == celast.IdentKind && variables[e.AsIdent()] && isPartOfValue(e)
	})
}

// isPartOfValue reports whether an expression is part of a concatenation, a list or a map.
func isPartOfValue(e celast.NavigableExpr) bool {
	for parent, ok := e.Parent(); ok; parent, ok = parent.Parent() {
		switch parent.Kind() {
		case celast.ListKind, celast.MapKind, celast.StructKind:
			return true
		case celast.CallKind:
			if name := parent.AsCall().FunctionName(); name == operators.Add || name == "cel.@mapInsert" {
				return true
			}
		}
	}
	return false
}

// boundQuantities replaces the parser of quantities by [gang.ParseQuantity].
func boundQuantities(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != "quantity" && call.Function() != "isQuantity" {
		return i, nil
	}
	parse := func(args ...ref.Val) ref.Val {
		text, isText := args[0].(types.String)
		if !isText {
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		quantity, err := gang.ParseQuantity(string(text))
		switch {
		case call.Function() == "isQuantity":
			return types.Bool(err == nil)
		case err != nil:
			return types.WrapErr(err)
		}
		return apiservercel.Quantity{Quantity: &quantity}
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), parse), nil
}

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
