package vet

import "strings"

func checkMutableImageTag(r *reporter, w *labeledWorkload) {
	if !w.hasMultiplePods() {
		return
	}
	for _, c := range w.trainingContainers() {
		if hasMutableTag(c.Image) {
			r.add(c.path+".image", "use an immutable tag or a digest",
				"%s", c.Image+" has no fixed tag, so nodes can run different versions of the image")
		}
	}
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
