package policy

import (
	"slices"

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
