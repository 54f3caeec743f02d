package docs_test

import (
	"fmt"
	"strings"
	"testing"

	"rollcall.training/internal/vet"
)

// vetIntro is the part of the page before the checks. A tilde stands for a backquote.
const vetIntro = `~rollcall vet -f FILE~ checks labeled workloads for errors and bad practices before you
apply them. It does not connect to a cluster. ~-f~ accepts files, directories and ~-~ for standard
input, and you can repeat it. Give all files of a gang at once, so that ~vet~ compares its workloads
with each other.

~~~sh
rollcall vet -f job.yaml
rollcall vet -f manifests/ --fail-on warning --disable NoMemoryLimit,MutableImageTag
kustomize build overlays/prod | rollcall vet -f - -o json | jq '.findings[].code'
~~~

| severity | meaning |
|---|---|
| error | The webhook or the API server rejects the workload, or the workload cannot work. |
| warning | The workload most likely does not do what you intend. |
| info | The workload works, but has an avoidable cost or risk. |

| exit code | meaning |
|---|---|
| 0 | No finding has the severity of ~--fail-on~ or a higher severity. |
| 1 | At least one finding has the severity of ~--fail-on~ or a higher severity, or ~--require~ fails. |
| 2 | The command is invalid, or a file or a document cannot be read. ~vet~ still checks the other documents. |

The values of ~--fail-on~ are ~error~ (default), ~warning~, ~info~ and ~never~.

If no object has the framework label, ~vet~ reports the objects that it found instead. With
~--require~, the exit code is then 1, so that a lost label fails a CI job.

~vet~ checks a CronJob as the Job of one run. Of workloads without the framework label, it checks only
whether the label is missing, misspelled or misplaced. It does not check:

- workloads with the label ~rollcall.training/inject: "false"~
- objects that already exist in a cluster
- details that are not in the manifest, such as the default command of an image

Render Helm charts and Kustomize overlays first, as in the last example.

## JSON and SARIF

~-o json~ prints one object. Later releases can add fields, but do not rename or remove any.
~-o sarif~ prints SARIF 2.1.0, which code hosts show next to the lines. In SARIF, the severity
~info~ has the level ~note~.

| field | type | meaning |
|---|---|---|
| ~workloads~ | number | Number of checked workloads. |
| ~unchecked~ | list | Objects that are not checked workloads, by kind. Absent if there are none. |
| ~unchecked[].group~ | string | API group of the kind. Absent for the core group. |
| ~unchecked[].kind~ | string | Kind, such as ~PyTorchJob~. |
| ~unchecked[].count~ | number | Number of objects of this kind. |
| ~unchecked[].migratable~ | boolean | True if ~rollcall migrate~ converts this kind, otherwise absent. |
| ~errors~, ~warnings~, ~infos~ | number | Number of findings with this severity. |
| ~findings~ | list | Findings in the order of the input, then by severity. Empty if there are none. |
| ~findings[].code~ | string | Code of the check, from the table below. |
| ~findings[].severity~ | string | ~error~, ~warning~ or ~info~. |
| ~findings[].source~ | string | Name of the file, or ~standard input~. |
| ~findings[].document~ | number | Position of the document in the file, from 1. Absent if the file cannot be read. |
| ~findings[].line~ | number | Line of the field or of the nearest field above it, from 1. Absent if unknown. |
| ~findings[].object~ | string | Kind and name, such as ~job/train~. Absent if the document cannot be read. |
| ~findings[].namespace~ | string | Namespace of the object, or the value of ~--namespace~. |
| ~findings[].field~ | string | Path of the field. Absent if the finding is about the entire object. |
| ~findings[].message~ | string | The mistake and its consequence. |
| ~findings[].fix~ | string | The remedy. Absent if the message contains it. |

## Checks

Codes are stable: they are never renamed, and never reused for a different check.
~rollcall vet --list~ prints this table. ~rollcall vet --explain CODE~ prints the section of a check.

| code | severity | finding |
|---|---|---|
`

// TestVetPage generates the reference page of rollcall vet from its checks.
func TestVetPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# rollcall vet\n\n" + generatedNotice + strings.ReplaceAll(vetIntro, "~", "`"))
	for _, c := range vet.Checks() {
		fmt.Fprintf(&page, "| [%s](#%s) | %s | %s |\n", c.Code, strings.ToLower(string(c.Code)), c.Severity, c.Title)
	}
	for _, c := range vet.Checks() {
		fmt.Fprintf(&page, "\n### %s\n\n%s: %s.\n\n%s\n\nFix: %s\n",
			c.Code, capitalizeFirst(string(c.Severity)), lowercaseFirst(c.Title), c.Why, c.Fix)
	}
	checkPage(t, "reference/vet.md", []byte(page.String()))
}

func capitalizeFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// lowercaseFirst returns a title in the form for the middle of a sentence. It keeps the capital
// letter of acronyms and of Rollcall.
func lowercaseFirst(title string) string {
	first, _, _ := strings.Cut(title, " ")
	isOrdinaryWord := strings.ToLower(first[1:]) == first[1:] && !strings.HasPrefix(first, "Rollcall")
	if isOrdinaryWord {
		return strings.ToLower(title[:1]) + title[1:]
	}
	return title
}
