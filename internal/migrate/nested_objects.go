package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/source"
)

// extractionAdvice is the action for a job within another object. Migrate does not convert it,
// because the outer object may depend on the kind of the inner one, for example on its status.
const extractionAdvice = "write it to its own file, run rollcall migrate -f on the file, and insert the result; " +
	"if the outer object waits for the job, let it use the conditions of the Job"

// reportNestedObject reports an object of another system within an object that passes through. An
// object with a spec is a job. An object without a spec is a reference to a job. It returns false
// for all other values.
func reportNestedObject(r *Report, path string, tree map[string]any) bool {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	if path == "" || !isMigratable(manifest.Object{APIVersion: apiVersion, Kind: kind}) {
		return false
	}
	if _, isJob := tree["spec"]; isJob {
		r.Errors = append(r.Errors, fmt.Sprintf("%s holds a %s, %s; migrate does not convert a job within another object; %s",
			path, kind, apiVersion, extractionAdvice))
		return true
	}
	name, _ := tree["name"].(string)
	r.Entries = append(r.Entries, source.Entry{
		Path: path, Outcome: source.Dropped,
		Reason: strings.TrimSpace(fmt.Sprintf("refers to the %s %s", kind, name)) + ", " + apiVersion +
			", which has another kind now",
		Action: "refer to the new Job or StatefulSet",
	})
	return true
}

// Patterns of manifests, in YAML or JSON, within a text.
var (
	apiVersionPattern = regexp.MustCompile(`\bapiVersion["']?\s*:\s*["']?([a-z0-9.-]+/[a-z0-9]+)`)
	kindPattern       = regexp.MustCompile(`\bkind["']?\s*:\s*["']?([A-Za-z]+)`)
)

// reportEmbeddedManifests reports the manifests of jobs in a text.
func reportEmbeddedManifests(r *Report, path, text string) {
	if !strings.Contains(text, "apiVersion") {
		return
	}
	var seen []string
	for _, version := range apiVersionPattern.FindAllStringSubmatch(text, -1) {
		for _, kind := range kindPattern.FindAllStringSubmatch(text, -1) {
			name := kind[1] + ", " + version[1]
			if !slices.Contains(seen, name) && isMigratable(manifest.Object{APIVersion: version[1], Kind: kind[1]}) {
				seen = append(seen, name)
				r.Errors = append(r.Errors, fmt.Sprintf(
					"%s holds the manifest of a %s; migrate does not convert a text within another object; %s",
					path, name, extractionAdvice))
			}
		}
	}
}
