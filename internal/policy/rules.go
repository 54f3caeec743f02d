package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/utils/ptr"
)

// Rule is a condition in CEL, in the dialect of ValidatingAdmissionPolicies. Expressions read three
// variables: gang has the facts of the gang, object is the workload, and namespaceObject has the metadata.name
// and metadata.labels of its namespace.
type Rule struct {
	// Name identifies the rule in its scope. It is a DNS label.
	Name string `json:"name"`
	// Mode is the mode of the rule. The default is the mode of the profile or of the file.
	Mode Mode `json:"mode,omitempty"`
	// When restricts the rule to the gangs for which it is true; empty means all gangs.
	When string `json:"when,omitempty"`
	// Expression is true for the gangs that satisfy the rule.
	Expression string `json:"expression"`
	// Message describes what the rule requires, in one line. The default is the expression.
	Message string `json:"message,omitempty"`
	// Field is the path of the field that a user must change. The default is metadata.
	Field string `json:"field,omitempty"`

	when, expression cel.Program // validateRule sets them
}

// celVersion is the version of the dialect: the oldest supported release of Kubernetes.
var celVersion = version.MajorMinor(1, 33)

// newRuleEnvironment returns the CEL environment of rules. All policies share one, because building it
// takes longer than compiling a rule.
var newRuleEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	gangType := newGangType()
	namespaceType := newObjectType("rollcall.Namespace", map[string]*apiservercel.DeclType{
		"metadata": newObjectType("rollcall.NamespaceMetadata", map[string]*apiservercel.DeclType{
			"name":   apiservercel.StringType,
			"labels": stringMapType,
		}),
	})
	set, err := environment.MustBaseEnvSet(celVersion).Extend(environment.VersionedOptions{
		IntroducedVersion: celVersion,
		EnvOptions: []cel.EnvOption{
			cel.Variable("gang", gangType.CelType()),
			cel.Variable("namespaceObject", namespaceType.CelType()),
			cel.Variable("object", cel.DynType),
		},
		DeclTypes: []*apiservercel.DeclType{gangType, namespaceType},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the CEL environment: %w", err)
	}
	return set.NewExpressionsEnv(), nil
})

// gangFields are the fields of the variable gang. An optional field is absent if its value is nil.
var gangFields = map[string]struct {
	of       *apiservercel.DeclType
	value    func(facts) any
	optional bool
}{
	"name":          {of: apiservercel.StringType, value: func(f facts) any { return f.Gang.Name }},
	"namespace":     {of: apiservercel.StringType, value: func(f facts) any { return f.Gang.Namespace }},
	"framework":     {of: apiservercel.StringType, value: func(f facts) any { return f.Gang.Framework.Name }},
	"role":          {of: apiservercel.StringType, value: func(f facts) any { return f.Gang.Role }},
	"kind":          {of: apiservercel.StringType, value: func(f facts) any { return string(f.Workload.Kind()) }},
	"queue":         {of: apiservercel.StringType, value: func(f facts) any { return f.queue() }},
	"priorityClass": {of: apiservercel.StringType, value: func(f facts) any { return f.priorityClass() }},
	"profile":       {of: apiservercel.StringType, value: func(f facts) any { return f.profile() }},
	"restartPolicy": {of: apiservercel.StringType, value: restartPolicyName},
	"size":          {of: apiservercel.IntType, value: func(f facts) any { return f.size }},
	"minSize":       {of: apiservercel.IntType, value: func(f facts) any { return f.minSize }},
	"gpus":          {of: apiservercel.IntType, value: func(f facts) any { return f.gpus }},
	"gpusPerPod":    {of: apiservercel.IntType, value: func(f facts) any { return f.gpusPerPod }},
	"restarts":      {of: apiservercel.IntType, value: func(f facts) any { return f.restarts }},
	"disruptions":   {of: apiservercel.IntType, value: func(f facts) any { return f.disruptions }},
	"elastic":       {of: apiservercel.BoolType, value: func(f facts) any { return f.Gang.Elastic != nil }},
	"checkpoints":   {of: apiservercel.BoolType, value: func(f facts) any { return f.checkpoints }},
	"labels":        {of: stringMapType, value: func(f facts) any { return orEmpty(f.Workload.Meta().Labels) }},
	"images":        {of: apiservercel.NewListType(apiservercel.StringType, -1), value: imageNames},
	"runtime":       {of: apiservercel.DurationType, value: func(f facts) any { return orNil(f.runtime) }, optional: true},
	"ttl":           {of: apiservercel.DurationType, value: func(f facts) any { return orNil(f.ttl) }, optional: true},
}

var stringMapType = apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)

func restartPolicyName(f facts) any { return string(f.Gang.RestartRules.RestartPolicy) }

func imageNames(f facts) any {
	names := make([]string, 0, len(f.images))
	for _, image := range f.images {
		names = append(names, image.value)
	}
	return names
}

// orEmpty returns an empty map for nil, which CEL could not read.
func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// orNil returns nil without a type for a nil duration.
func orNil(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return *d
}

// newGangType returns the type of the variable gang.
func newGangType() *apiservercel.DeclType {
	fields := map[string]*apiservercel.DeclField{}
	for name, field := range gangFields {
		fields[name] = apiservercel.NewDeclField(name, field.of, !field.optional, nil, nil)
	}
	return apiservercel.NewObjectType("rollcall.Gang", fields)
}

// newGangValue returns the value of the variable gang.
func newGangValue(f facts) map[string]any {
	values := make(map[string]any, len(gangFields))
	for name, field := range gangFields {
		if value := field.value(f); value != nil {
			values[name] = value
		}
	}
	return values
}

// GangField is a field of the variable gang.
type GangField struct {
	// Name is the name of the field.
	Name string
	// Type is its type in CEL.
	Type string
	// Optional is true if the field can be absent.
	Optional bool
}

// GangFields returns the fields of the variable gang, sorted by name.
func GangFields() []GangField {
	var fields []GangField
	for _, name := range slices.Sorted(maps.Keys(gangFields)) {
		field := gangFields[name]
		fields = append(fields, GangField{Name: name, Type: field.of.CelType().String(), Optional: field.optional})
	}
	return fields
}

func newObjectType(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	declared := map[string]*apiservercel.DeclField{}
	for field, t := range fields {
		declared[field] = apiservercel.NewDeclField(field, t, true, nil, nil)
	}
	return apiservercel.NewObjectType(name, declared)
}

// validateRule reports the mistakes of a rule and compiles its expressions.
func (r *reader) validateRule(path string, rule *Rule) {
	if rule.Expression == "" {
		r.add(path+".expression", "is required")
		return
	}
	if strings.ContainsAny(rule.Message, "\n\r") {
		r.add(path+".message", "must be one line")
	}
	var isBounded, isWhenBounded bool
	rule.expression, isBounded = r.compileExpression(path+".expression", rule.Expression)
	if rule.When != "" {
		rule.when, isWhenBounded = r.compileExpression(path+".when", rule.When)
		isBounded = isBounded && isWhenBounded
	}
	if r.failed() || !isBounded {
		return
	}
	// An expression that fails on a gang without labels would deny such gangs without a reason.
	if _, err := rule.evaluate(r.minimal); errors.Is(err, errCostExceeded) {
		r.add(path, "%v", err)
	} else if err != nil {
		r.add(path, "fails for a gang without any labels: %v; "+
			"read optional values as in gang.labels[?'team'].orValue('') or has(gang.runtime)", err)
	}
}

// newMinimalEvaluation returns that of a Job that sets no optional field. The API server requires a container.
func newMinimalEvaluation() *evaluation {
	container := corev1.Container{Name: "main", Image: "main"}
	e := &evaluation{}
	e.Workload.Job = &batchv1.Job{Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
	}}
	e.prepare()
	return e
}

// compileExpression returns the program of an expression, or nil after it reported a mistake. It returns false if only
// the gang bounds what the evaluation needs; see [hasBoundedValues].
func (r *reader) compileExpression(path, expression string) (cel.Program, bool) {
	env, err := newRuleEnvironment()
	if err != nil {
		r.add(path, "%v", err)
		return nil, false
	}
	ast, issues := env.Parse(expression)
	if issues.Err() == nil {
		if !r.checkPatternsOfExpression(path, ast) {
			return nil, false
		}
		ast, issues = env.Check(ast)
	}
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			r.add(path, "column %d: %s", e.Location.Column()+1, e.Message)
		}
		return nil, false
	}
	if ast.OutputType() != cel.BoolType {
		r.add(path, "must be true or false, and is of the type %s", ast.OutputType())
		return nil, false
	}
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost, cel.OptPartialEval),
		cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
		cel.CustomDecoratorV2(boundQuantities))
	if err != nil {
		r.add(path, "%v", err)
	}
	return program, hasBoundedValues(ast)
}

// outcome is the result of an expression.
type outcome int

const (
	satisfied outcome = iota
	violated
	unknown
	inapplicable // the condition when is false
)

// check adds the violation of a gang. It returns false if the condition when is false. A rule that fails is violated:
// its author did not consider this gang.
func (r Rule) check(e *evaluation, v *violations) bool {
	path, message := cmp.Or(r.Field, "metadata"), cmp.Or(r.Message, "does not satisfy "+r.Expression)
	result, err := r.evaluate(e)
	switch {
	case err != nil:
		v.add(path, "", "cannot be judged: %v", err)
	case result == violated:
		v.add(path, "", "%s", message)
	case result == unknown:
		v.add(path, "", "%s: not known until all members exist", message).Unknown = true
	}
	return result != inapplicable
}

// evaluate returns the outcome for a gang. If it depends on accelerators that are not known, the gang violates
// the rule if the smallest and the largest possible number do. Otherwise, a resource claim would bypass it.
func (r Rule) evaluate(e *evaluation) (outcome, error) {
	result, err := r.evaluateWith(e, e.variables)
	if err != nil || result != unknown || !e.gpusUnknown {
		return result, err
	}
	for _, variables := range e.bounds {
		// A number for which the expression fails does not satisfy the rule.
		if result, err := r.evaluateWith(e, variables); err == nil && result != violated {
			return unknown, nil
		}
	}
	return violated, nil
}

// evaluateWith returns the outcome for a gang with the given variables.
func (r Rule) evaluateWith(e *evaluation, prepare prepareVariables) (outcome, error) {
	variables, err := prepare()
	if err != nil {
		return unknown, err
	}
	if r.when != nil {
		if applies, err := e.evaluateProgram(r.when, variables); err != nil || applies == violated {
			return inapplicable, err
		} else if applies == unknown {
			return unknown, nil
		}
	}
	return e.evaluateProgram(r.expression, variables)
}

// prepareVariables returns the variables of an expression.
type prepareVariables func() (cel.PartialActivation, error)

// prepare sets the variables, which are built when the first rule reads them.
func (e *evaluation) prepare() {
	with := func(f facts) prepareVariables {
		return sync.OnceValues(func() (cel.PartialActivation, error) { return e.newVariables(f) })
	}
	e.variables = with(e.facts)
	if !e.gpusUnknown {
		return
	}
	for _, gpus := range []int64{e.gpus, maxCount} {
		bound := e.facts
		bound.gpus, bound.gpusUnknown = gpus, false
		e.bounds = append(e.bounds, with(bound))
	}
}

// newVariables returns the variables of an expression. The accelerators are unknown if the facts only
// have a lower bound.
func (e *evaluation) newVariables(f facts) (cel.PartialActivation, error) {
	values := map[string]any{
		"gang": newGangValue(f),
		"namespaceObject": map[string]any{
			"metadata": map[string]any{"name": e.namespace.Name, "labels": orEmpty(e.namespace.Labels)},
		},
		"object": sync.OnceValue(e.convertWorkload),
	}
	var unknowns []*cel.AttributePatternType
	if f.gpusUnknown {
		unknowns = append(unknowns, cel.AttributePattern("gang").QualString("gpus"))
	}
	if f.checkpointsUnknown {
		unknowns = append(unknowns, cel.AttributePattern("gang").QualString("checkpoints"))
	}
	variables, err := cel.PartialVars(values, unknowns...)
	if err != nil {
		return nil, fmt.Errorf("preparing variables: %w", err)
	}
	return variables, nil
}

// convertWorkload returns the workload as a tree. Only expressions that read the object need it.
func (e *evaluation) convertWorkload() any {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e.Workload.Object())
	if err != nil {
		return types.WrapErr(err)
	}
	return tree
}

// errCostExceeded means that the rules of a policy together are too expensive for one gang. API servers
// have the same limit for the policies of one request.
var errCostExceeded = fmt.Errorf("the rules exceed the cost of %d units for one gang", celconfig.RuntimeCELCostBudget)

// evaluateProgram evaluates one expression. Together, the expressions of an evaluation have a limit:
// users determine the size of the object that the expressions read.
func (e *evaluation) evaluateProgram(program cel.Program, variables cel.PartialActivation) (outcome, error) {
	if e.cost > celconfig.RuntimeCELCostBudget {
		return unknown, errCostExceeded
	}
	value, details, err := program.Eval(variables)
	if details != nil {
		e.cost += ptr.Deref(details.ActualCost(), 0)
	}
	switch {
	case err != nil:
		return unknown, err
	case types.IsUnknown(value):
		return unknown, nil
	case ref.Val(types.True).Equal(value) == types.True:
		return satisfied, nil
	}
	return violated, nil
}
