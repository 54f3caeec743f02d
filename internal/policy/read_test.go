package policy_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/policy"
)

// problemCase is a policy file with one mistake.
type problemCase struct {
	text     string // after apiVersion and kind; lines therefore start at 3
	want     string
	isAdvice bool
}

var allFrameworks = strings.Join(engine.Frameworks().Names(), ", ")

func TestReadProblems(t *testing.T) {
	cases := map[string]problemCase{
		"an unknown field": {
			text: "cluster: {limits: {gpu: {max: 1}}}",
			want: "p.yaml:3:20: cluster.limits.gpu: unknown field; did you mean gpus?",
		},
		"a duplicate key": {
			text: "mode: warn\nmode: audit",
			want: `p.yaml:4: key "mode" already set in map`,
		},
		"a second document": {
			text: "mode: warn\n---\nkind: A\napiVersion: v1",
			want: "p.yaml:5: a second document; one is expected",
		},
		"a second document without a kind": {
			text: "mode: warn\n---\ncluster: {limits: {gpus: {max: 64}}}",
			want: "p.yaml:5: a second document; one is expected",
		},
		"a number in quotes": {
			text: "cluster: {limits: {size: {max: '64'}}}",
			want: "p.yaml:3:27: cluster.limits.size.max: must be of type integer, not string",
		},
		"a negative number": {
			text: "cluster: {limits: {size: {max: -1}}}",
			want: "p.yaml:3:27: cluster.limits.size.max: -1 must be a whole number from 0 to 102400000",
		},
		"bounds that no gang satisfies": {
			text: "cluster: {limits: {size: {min: 8, max: 4}}}",
			want: "p.yaml:3:20: cluster.limits.size: no gang satisfies min 8 and max 4",
		},
		"a duration in seconds": {
			text: "cluster: {limits: {runtime: {max: 86400}}}",
			want: "p.yaml:3:30: cluster.limits.runtime.max: must be a duration with the units h, m and s, such as 90m or 72h",
		},
		"a duration in days": {
			text: "cluster: {limits: {runtime: {max: 7d}}}",
			want: "p.yaml:3:30: cluster.limits.runtime.max: must be a duration with the units h, m and s, such as 90m or 72h",
		},
		"a mode that does not exist": {
			text: "mode: deny",
			want: `p.yaml:3:1: mode: "deny" is not a mode; use enforce, warn, audit or off`,
		},
		"a profile that is never used": {
			text: "profiles:\n- {name: all, namespaces: {names: ['*']}}\n- {name: late, namespaces: {names: [a]}}",
			want: "p.yaml:5:16: profiles[1].namespaces: is never used: profile all matches all namespaces before",
		},
		"a limit that the cluster makes useless is advice": {
			text: "cluster: {limits: {size: {max: 4}}}\nprofiles: [{name: a, namespaces: {names: [a]}, limits: {size: " +
				"{max: 8}}}]",
			want:     "p.yaml:4:64: profiles[0].limits.size.max: has no effect above 4, the limit of the cluster",
			isAdvice: true,
		},
		"a profile that matches no namespace": {
			text: "profiles: [{name: a}]",
			want: `p.yaml:3:12: profiles[0].namespaces: matches no namespace; write names: ["*"] for all`,
		},
		"a framework that does not exist": {
			text: "cluster: {limits: {frameworks: {allow: [torch]}}}",
			want: `p.yaml:3:41: cluster.limits.frameworks.allow[0]: "torch" is not a framework; ` +
				"did you mean pytorch?; frameworks are " + allFrameworks,
		},
		"a regular expression that is not valid": {
			text: "cluster: {limits: {labels: {require: {team: '('}}}}",
			want: "p.yaml:3:39: cluster.limits.labels.require[team]: is not a regular expression: missing closing ): `^(?:()$`",
		},
		"an expression with an unknown field": {
			text: "cluster: {rules: [{name: a, expression: gang.gpuz > 1}]}",
			want: "p.yaml:3:29: cluster.rules[0].expression: column 5: undefined field 'gpuz'",
		},
		"an expression of another type": {
			text: "cluster: {rules: [{name: a, expression: gang.gpus}]}",
			want: "p.yaml:3:29: cluster.rules[0].expression: must be true or false, and is of the type int",
		},
		"an expression that fails for a gang without labels": {
			text: "cluster: {rules: [{name: a, expression: \"gang.labels['team'] == 'x'\"}]}",
			want: "p.yaml:3:19: cluster.rules[0]: fails for a gang without any labels: no such key: team; " +
				"read optional values as in gang.labels[?'team'].orValue('') or has(gang.runtime)",
		},
		"an exemption of a rule that does not exist": {
			text: "exemptions: [{rule: cluster/gpus, namespace: a, gangs: ['*'], until: 2027-01-01, reason: r}]",
			want: `p.yaml:3:15: exemptions[0].rule: "cluster/gpus" does not exist; a rule is scope/name, such as cluster/gpus`,
		},
		"an exemption without an end": {
			text: "cluster: {limits: {size: {max: 1}}}\nexemptions: [{rule: cluster/size, namespace: a, gangs: ['*'], " +
				"reason: r}]",
			want: `p.yaml:4:14: exemptions[0].until: "" must be a date, such as 2027-03-31`,
		},
	}
	maps.Copy(cases, moreProblemCases)
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := policy.Read("p.yaml", []byte(withHeader(test.text)), engine.Frameworks())
			if len(problems) != 1 {
				t.Fatalf("%d problems, want 1: %v", len(problems), problems)
			}
			if diff := cmp.Diff(test.want, problems[0].String()); diff != "" {
				t.Error("problem (-want +got):\n" + diff)
			}
			if isAdvice := problems[0].Severity == policy.Advice; isAdvice != test.isAdvice {
				t.Errorf("advice is %t, want %t", isAdvice, test.isAdvice)
			}
		})
	}
}

// newManyRules returns a file with one rule more than the maximum.
func newManyRules() string {
	text := withHeader("cluster:\n  rules:\n")
	for i := range policy.MaxRules + 1 {
		text += fmt.Sprintf("  - {name: r%d, expression: 'true'}\n", i)
	}
	return text
}

func TestReadOtherFiles(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"an empty file is a policy without limits":     {},
		"empty documents and comments around a policy": {text: "---\n# a\n---\n" + withHeader("mode: warn\n---\n# b\n---\n")},
		"a document without a kind before the policy": {
			text: "cluster: {}\n---\n" + withHeader("mode: warn"),
			want: "p.yaml:3: a second document; one is expected",
		},
		"a file of a newer release": {
			text: "apiVersion: policy.rollcall.training/v9\nkind: GangPolicy",
			want: "p.yaml:1:1: apiVersion: is policy.rollcall.training/v9 GangPolicy; " +
				"this release reads policy.rollcall.training/v1alpha1 GangPolicy",
		},
		"a file that is too large": {
			text: strings.Repeat("#\n", policy.MaxFileBytes),
			want: "p.yaml: has 1048576 bytes; at most 524288 are allowed",
		},
		"a file with too many profiles": {
			text: withHeader("profiles:\n" + strings.Repeat("- {name: a, namespaces: {names: [a]}}\n", policy.MaxProfiles+1)),
			want: "p.yaml:3:1: profiles: has 257 profiles; at most 256 are allowed",
		},
		"a file with too many rules": {text: newManyRules(), want: "p.yaml:1:1: has 1025 rules; at most 1024 are allowed"},
		"text that is not YAML":      {text: "a: [", want: "p.yaml:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			p, problems := policy.Read("p.yaml", []byte(test.text), engine.Frameworks())
			if test.want == "" {
				if p == nil || len(problems) > 0 {
					t.Fatalf("problems: %v", problems)
				}
				return
			}
			if p != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].String(), test.want) {
				t.Errorf("problems %v, want one that starts with %q", problems, test.want)
			}
		})
	}
}
