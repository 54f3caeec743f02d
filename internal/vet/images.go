package vet

import "strings"

func imageChecks() []Check {
	return []Check{{
		Code: CodeMutableImageTag, Severity: Info, checkGang: checkMutableImageTag,
		Title: "The image of a gang with several pods has no fixed tag",
		Why: "Each node pulls the current image of the tag, or uses the image that it pulled before. " +
			"The ranks of one gang can therefore run different programs, and so can two attempts.",
		Fix: "Use an immutable tag or a digest.",
	}}
}

func checkMutableImageTag(_ *input, w *labeledWorkload) []issue {
	if !w.hasMultiplePods() {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		if hasMutableTag(c.Image) {
			issues = append(issues, issue{
				field:   c.path + ".image",
				message: c.Image + " has no fixed tag, so nodes can run different versions of the image",
				fix:     "use an immutable tag or a digest",
			})
		}
	}
	return issues
}

// hasMutableTag reports whether an image reference has neither a digest nor a tag other than
// latest. It returns false for an empty reference, and for a variable of a template that can contain
// the tag.
func hasMutableTag(image string) bool {
	// A colon before the last slash separates the port of a registry.
	name := image[strings.LastIndex(image, "/")+1:]
	if image == "" || strings.Contains(image, "@") || strings.Contains(name, "$") {
		return false
	}
	_, tag, hasTag := strings.Cut(name, ":")
	return !hasTag || tag == "latest"
}
