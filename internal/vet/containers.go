package vet

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

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

func checkSidecarNeverExits(r *reporter, w *labeledWorkload) {
	if w.workload.Job == nil {
		return
	}
	for i, c := range w.workload.Template().Spec.Containers {
		isTraining := slices.ContainsFunc(w.gang.Containers, func(t gang.Container) bool { return t.Name == c.Name })
		program, ok := findEndlessProgram(command.Parse(c.Command, c.Args))
		if isTraining || !ok {
			continue
		}
		r.add(fmt.Sprintf("%s.containers[%d].command", podSpecPath, i),
			"move the container to initContainers with restartPolicy: Always",
			"container %s runs %s, which never exits, so the Job never completes", c.Name, program)
	}
}

// findEndlessProgram returns the call of sleep or tail with which the command waits indefinitely. It
// returns false if there is none, or if the command may terminate it.
func findEndlessProgram(c command.Command) (string, bool) {
	if len(c.Programs) == 0 || c.MayRepeat {
		return "", false
	}
	last := c.Programs[len(c.Programs)-1]
	isEndless := slices.ContainsFunc(last.Args, func(a command.Argument) bool {
		return slices.Contains(endlessArgs[last.Name], a.Text)
	})
	return last.String(), isEndless
}

// endlessArgs are the arguments with which programs wait indefinitely.
var endlessArgs = map[string][]string{"sleep": {"infinity", "inf"}, "tail": {"-f", "-F", "--follow"}}
