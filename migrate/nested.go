package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"rollcall.training/manifest"
	"rollcall.training/migrate/ledger"
)

// unfold is what to do with a job within another object. What it becomes may be several
// objects, and whoever makes them looks at their end in a way of its own.
const unfold = "write it to a file of its own, run rollcall migrate -f on that, and put what it becomes in its place; what waits for its end has to look at the Job's conditions then"

// nested judges a mapping that is an object of another system, within one that passes
// through; it is false for all others. One with a spec is a job, and one without names a
// job that is there no more.
func nested(r *Report, path string, v map[string]any) bool {
	apiVersion, _ := v["apiVersion"].(string)
	kind, _ := v["kind"].(string)
	if path == "" || !ours(manifest.Object{APIVersion: apiVersion, Kind: kind}) {
		return false
	}
	if _, job := v["spec"]; job {
		r.Mistakes = append(r.Mistakes, fmt.Sprintf("%s holds a %s, %s, which is not migrated, since it is within another object; %s", path, kind, apiVersion, unfold))
		return true
	}
	name, _ := v["name"].(string)
	r.Entries = append(r.Entries, ledger.Entry{Path: path, Outcome: ledger.Lost,
		Reason: strings.TrimSpace(fmt.Sprintf("it names the %s %s", kind, name)) + ", " + apiVersion + ", and what that becomes is of another kind", Do: "name the Job or the StatefulSet that it becomes"})
	return true
}

// Lines of a manifest within a text, as YAML or as JSON.
var (
	apiVersionIn = regexp.MustCompile(`\bapiVersion["']?\s*:\s*["']?([a-z0-9.-]+/[a-z0-9]+)`)
	kindIn       = regexp.MustCompile(`\bkind["']?\s*:\s*["']?([A-Za-z]+)`)
)

// within names the jobs whose manifests stand in a text.
func within(r *Report, path, text string) {
	if !strings.Contains(text, "apiVersion") {
		return
	}
	var seen []string
	for _, version := range apiVersionIn.FindAllStringSubmatch(text, -1) {
		for _, kind := range kindIn.FindAllStringSubmatch(text, -1) {
			name := kind[1] + ", " + version[1]
			if !slices.Contains(seen, name) && ours(manifest.Object{APIVersion: version[1], Kind: kind[1]}) {
				seen = append(seen, name)
				r.Mistakes = append(r.Mistakes, fmt.Sprintf("%s holds the manifest of a %s, which is not migrated, since it is a text within another object; %s", path, name, unfold))
			}
		}
	}
}
