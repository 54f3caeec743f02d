package docs_test

import (
	"fmt"
	"strings"
	"testing"

	"rollcall.training/vet"
)

const vetIntro = `` + "`rollcall vet -f FILE`" + ` says what is wrong or unwise in labelled workloads before anything is applied. It asks no
cluster. ` + "`-f`" + ` takes files, directories and ` + "`-`" + ` for standard input, several times; give all files of a gang at once, and they
are compared with each other.

` + "```sh" + `
rollcall vet -f job.yaml
rollcall vet -f manifests/ --fail-on warning --disable NoMemoryLimit,FloatingImage
kustomize build overlays/prod | rollcall vet -f - -o json | jq '.findings[].code'
` + "```" + `

| severity | meaning |
|---|---|
| error | it will be refused, or cannot work |
| warning | it will most likely not do what is meant |
| advice | it works, and costs something that is easily had cheaper |

| exit code | when |
|---|---|
| 0 | no finding reaches ` + "`--fail-on`" + ` (` + "`error`" + ` by default; ` + "`warning`, `advice`, `never`" + `) |
| 1 | at least one does |
| 2 | the command, a file, or a document of the input cannot be read. What can be read is vetted nevertheless |

The Jobs that a CronJob makes are looked at as the Job of one run. What is not looked at: workloads without the label, those with
` + "`rollcall.training/inject: \"false\"`" + `, and what is in the cluster already. A check is silent where the text does not tell, such as for
a command that only the image knows. Templates of Helm and patches of Kustomize are no manifests yet: give what is made of them, as above.

## JSON and SARIF

` + "`-o json`" + ` prints one object. Fields are added in later releases, and none is renamed or taken away. ` + "`-o sarif`" + ` prints SARIF
2.1.0, which hosts of code show beside the lines; advice has the level note there.

| field | type | meaning |
|---|---|---|
| ` + "`workloads`" + ` | number | labelled workloads that were looked at |
| ` + "`errors`, `warnings`, `advice`" + ` | number | findings of each severity |
| ` + "`findings`" + ` | list | in the order of the input, those of one object by severity; empty when there is nothing to say |
| ` + "`findings[].code`" + ` | text | one of the codes below |
| ` + "`findings[].severity`" + ` | text | ` + "`error`, `warning` or `advice`" + ` |
| ` + "`findings[].source`" + ` | text | the file, or ` + "`standard input`" + ` |
| ` + "`findings[].document`" + ` | number | the document in the file, from 1; absent when the file as a whole cannot be read |
| ` + "`findings[].line`" + ` | number | the line of the field, or of the nearest one above it, from 1; absent when it is not known |
| ` + "`findings[].object`" + ` | text | ` + "`kind/name`, such as `job/train`" + `; absent when the document cannot be read |
| ` + "`findings[].namespace`" + ` | text | the object's, or that of ` + "`--namespace`" + ` |
| ` + "`findings[].field`" + ` | text | path of the field; absent when it is about the whole object |
| ` + "`findings[].message`" + ` | text | what is wrong |
| ` + "`findings[].fix`" + ` | text | what to do; absent where the message says it |

`

func TestVet(t *testing.T) {
	var out strings.Builder
	out.WriteString("# rollcall vet\n\n" + notice + vetIntro)
	out.WriteString("## Checks\n\nCodes are stable: they are never renamed, and never used again for something else. `rollcall vet --list` prints this table, and\n`rollcall vet --explain CODE` one of the sections below.\n\n| code | severity | finding |\n|---|---|---|\n")
	for _, c := range vet.Checks() {
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s |\n", c.Code, strings.ToLower(string(c.Code)), c.Severity, c.Title)
	}
	for _, c := range vet.Checks() {
		fmt.Fprintf(&out, "\n### %s\n\n%s: %s.\n\n%s\n\nFix: %s\n", c.Code, upper(string(c.Severity)), lower(c.Title), c.Why, c.Fix)
	}
	check(t, "reference/vet.md", []byte(out.String()))
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// lower begins a title in the middle of a sentence; a name keeps its capital.
func lower(s string) string {
	if first, _, _ := strings.Cut(s, " "); strings.ToLower(first[1:]) == first[1:] && !strings.HasPrefix(first, "Rollcall") {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}
