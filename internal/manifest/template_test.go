package manifest

import (
	"strings"
	"testing"
)

func TestTemplateHint(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		variable string // empty for a document that is not a template
	}{
		"a number is a variable": {
			text:     "kind: Job\nspec: {parallelism: $NUM_NODES}\n",
			variable: "$NUM_NODES",
		},
		"a variable in braces is a part of a string": {
			text:     "kind: Job\nspec: {containers: [{image: \"registry/${IMAGE}:1\"}]}\n",
			variable: "${IMAGE}",
		},
		"an item of a list contains a variable": {
			text:     "kind: List\nitems: [{kind: Job, metadata: {name: $NAME}}]\n",
			variable: "$NAME",
		},
		"commands, variables and files contain shell": {
			text: "kind: Job\nspec:\n  containers:\n  - command: [sh, -c, 'echo $RANK']\n    args: [$A]\n" +
				"    env: [{name: A, value: $B}]\n---\nkind: ConfigMap\ndata: {run.sh: 'echo ${RANK}'}\n",
		},
		"a variable of Kubernetes is not a template": {
			text: "kind: Job\nspec: {volumes: [{subPathExpr: $(NAME)}]}\n",
		},
		"a dollar sign is not a variable": {
			text: "kind: Job\nmetadata: {labels: {price: 5$, other: $1}}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			docs, errs := ReadAll("a.yaml", strings.NewReader(c.text))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			var hints []string
			for _, d := range docs {
				if hint := d.TemplateHint(); hint != "" {
					hints = append(hints, hint)
				}
			}
			hint := strings.Join(hints, "\n")
			if c.variable == "" && hint != "" {
				t.Errorf("hint %q, want none", hint)
			}
			if !strings.Contains(hint, c.variable) {
				t.Errorf("hint %q, want one that contains %s", hint, c.variable)
			}
		})
	}
}

func TestFindTemplateVariable(t *testing.T) {
	o := readObject(t, "kind: Job\nspec: {a: [{b: x}, {b: 'y-${Z}'}]}\n", 0)
	variable, path, found := o.FindTemplateVariable()
	if variable != "${Z}" || path != "spec.a[1].b" || !found {
		t.Errorf("variable %q at %q (%v), want ${Z} at spec.a[1].b", variable, path, found)
	}
}
