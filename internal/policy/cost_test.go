package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

// expensiveRules returns rules that cost many units and little time.
func expensiveRules(count int, when string) string {
	const numbers = "[0,1,2,3,4,5,6,7,8,9]"
	search := "!('" + strings.Repeat("x", 2000) + "' + gang.framework).contains('%')"
	expression := numbers + ".all(a, " + numbers + ".all(b, " + numbers + ".all(c, " + search + ")))"
	var rules []string
	for i := range count {
		rules = append(rules, fmt.Sprintf("{name: rule-%d, when: %q, expression: %q}", i, when, expression))
	}
	return strings.Join(rules, ", ")
}

// TestCostOfAllRules checks that all rules of a policy together have a limit, and that a rule that was
// not evaluated for this reason is violated.
func TestCostOfAllRules(t *testing.T) {
	p := readPolicy(t, "cluster: {rules: ["+expensiveRules(200, "gang.framework == 'pytorch'")+"]}")
	findings := p.Judge(newInput(t, readJob(t, bigJob)))[0].Findings
	if len(findings) == 0 || len(findings) == 200 {
		t.Fatalf("%d of 200 rules are violated, want only those beyond the limit", len(findings))
	}
	for _, f := range findings {
		if !strings.Contains(f.Message, "exceed the cost of 10000000 units") {
			t.Fatalf("finding: %s", f)
		}
	}
}

// TestDefaultsOfUnparsedWorkloads verifies that a workload that exceeds a bound of its containers gets no
// defaults, and that a name that is repeated in the list of training containers counts once.
func TestDefaultsOfUnparsedWorkloads(t *testing.T) {
	p := readPolicy(t, "cluster: {defaults: {env: {NCCL_DEBUG: INFO}}}")
	for name, test := range map[string]struct {
		containers   string
		copies       int
		envFrom      bool
		wantWarnings int
		wantEnv      int
	}{
		"a repeated container gets the default once": {containers: "trainer,trainer", copies: 1, wantEnv: 1},
		"a repeated container has one warning": {
			containers: "trainer,trainer", copies: 1, envFrom: true, wantWarnings: 1,
		},
		"a list that is too long selects no containers":  {containers: "trainer," + strings.Repeat("z", 4096), copies: 1},
		"too many containers get no defaults":            {containers: "trainer", copies: gang.MaxContainers + 1},
		"the maximum number of containers gets defaults": {containers: "trainer", copies: gang.MaxContainers, wantEnv: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := readJob(t, bigJob)
			w.Meta().Annotations = map[string]string{gang.AnnotationContainers: test.containers}
			spec := &w.Template().Spec
			if test.envFrom {
				spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{Prefix: "NCCL_"}}
			}
			spec.Containers = slices.Repeat(spec.Containers, test.copies)
			warnings, err := p.ApplyDefaults(w, policy.Namespace{Name: "a"})
			if err != nil || len(warnings) != test.wantWarnings || len(spec.Containers[0].Env) != test.wantEnv {
				t.Errorf("error %v, warnings %v, variables %v", err, warnings, spec.Containers[0].Env)
			}
		})
	}
}

// TestAttackPolicyFile checks that a file that needs much more memory than its length is a mistake. Anybody who reaches
// the webhook can send one.
func TestAttackPolicyFile(t *testing.T) {
	const head = "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\n"
	pattern := "(?:" + strings.Repeat("a", 200) + "){1000}"
	for name, test := range map[string]struct{ text, want string }{
		"an alias of a long text": {
			text: "cluster: {rules: [{name: a, expression: 'true', message: &a '" + strings.Repeat("x", 300<<10) +
				"'}, {name: b, expression: 'true', message: *a}]}",
			want: "more than 512 KiB after its aliases are expanded",
		},
		"large patterns of labels": {
			text: "cluster: {limits: {labels: {require: {a: '" + pattern + "', b: '" + pattern + "', c: '" + pattern + "'}}}}",
			want: "more than 500000 instructions",
		},
		"large patterns in a rule": {
			text: "cluster: {rules: [{name: a, expression: \"'x'.matches('" + pattern + "') || 'x'.find('" + pattern +
				"') == '' || matches('x', '" + pattern + "')\"}]}",
			want: "more than 500000 instructions",
		},
		"classes of characters": {
			text: "cluster: {rules: [{name: a, expression: \"gang.name.matches('[a-z]{1,900}" +
				strings.Repeat(`\\\\pL`, 900) + "')\"}]}",
			want: "more than 500000 instructions",
		},
		"a computed pattern in a rule": {
			text: "cluster: {rules: [{name: a, expression: \"[0, 1].exists(i, 'x'.matches('(?:' + 'aaaa' + '){1000}'))\"}]}",
			want: "the regular expression of matches must be a literal text",
		},
		"a pattern of the user in a rule": {
			text: "cluster: {rules: [{name: a, expression: \"matches('x', gang.labels[?'a'].orValue(''))\"}]}",
			want: "the regular expression of matches must be a literal text",
		},
		"too many rules": {
			text: "cluster: {rules: [" + strings.Repeat("{name: a, expression: '1'},", policy.MaxRules+1) + "]}",
			want: "has 1025 rules",
		},
		"many rules of a high cost": {
			text: "cluster: {rules: [" + expensiveRules(200, "") + "]}",
			want: "the rules exceed the cost of 10000000 units",
		},
		"a quantity with a large exponent": {
			text: "cluster: {rules: [{name: a, expression: \"quantity('1e' + '-99').isGreaterThan(quantity('1'))\"}]}",
			want: "the exponent -99 is not from -18 to 18",
		},
		"a quantity with many digits": {
			text: "cluster: {rules: [{name: a, expression: \"quantity('" + strings.Repeat("1", 101) + "').isInteger()\"}]}",
			want: "the text has 101 bytes; at most 100 are allowed",
		},
		"patterns of an ordinary size": {
			text: "cluster: {limits: {labels: {require: {a: '[a-z0-9]{1,63}', b: '(team|org)-[0-9]+'}}}, " +
				"rules: [{name: a, expression: \"gang.name.matches('^[a-z]{1,40}-[0-9]+$')\"}]}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, problems := policy.Read("policy.yaml", []byte(head+test.text), injectors.Builtin().Frameworks())
			var got string
			if p == nil {
				got = problems[0].Message
			}
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("mistake %q, want %q", got, test.want)
			}
		})
	}
}

// TestAttackGrowingValues checks that an expression is not evaluated, when a file is read, if its values can grow
// without a bound. Each expression ends with a division by zero for a gang without ranks.
func TestAttackGrowingValues(t *testing.T) {
	for name, test := range map[string]struct {
		expression string
		evaluated  bool
	}{
		"a list that is doubled":   {expression: "[[1] + [2]].exists(a, [a + a].exists(b, b.size() == 1))"},
		"a text that is doubled":   {expression: "['x'].map(a, a + a).size() == 0"},
		"a list of lists":          {expression: "[[1]].exists(a, [a, a] == [])"},
		"a map of maps":            {expression: "[{'a': 1}].exists(a, {'b': a, 'c': a}.size() == 0)"},
		"a nested list of a macro": {expression: "[[1]].map(a, [1, 2].map(b, a)) == []"},
		"a map of a macro":         {expression: "[1].transformMap(i, v, v + v).size() == 0"},
		"a value of an option":     {expression: "!optional.of('x').optMap(a, a + a).hasValue()"},
		"a replacement":            {expression: "'x'.replace('x', 'yy') == ''"},
		"a format":                 {expression: "'%s%s'.format(['x', 'y']) == ''"},
		"a quotation":              {expression: "strings.quote('x') == ''"},
		"a condition of all containers": {
			expression: "(object.spec.template.spec.containers + object.spec.template.spec.?initContainers.orValue([]))" +
				".exists(c, ['a/', 'b/'].exists(p, c.image.startsWith(p)))", evaluated: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			expression := test.expression + " || 1 / gang.size == 0"
			for _, rule := range []string{
				fmt.Sprintf("expression: %q", expression), fmt.Sprintf("when: %q, expression: 'true'", expression),
			} {
				text := withHeader("cluster: {rules: [{name: a, " + rule + "}]}")
				p, problems := policy.Read("policy.yaml", []byte(text), engine.Frameworks())
				evaluated := p == nil && strings.Contains(problems[0].Message, "division by zero")
				if evaluated != test.evaluated || p == nil && !evaluated {
					t.Errorf("evaluated: %t, problems: %v", evaluated, problems)
				}
			}
		})
	}
}
