package vet

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

func sidecarChecks() []Check {
	return []Check{{
		Code: CodeSidecarNeverExits, Severity: Warning, checkGang: checkSidecarNeverExits,
		Title: "A container other than the training container never exits",
		Why: "A pod succeeds when all of its containers have exited. If a container sleeps indefinitely, " +
			"the Job never completes, although the training has finished. " +
			"The kubelet terminates sidecar containers, which are init containers with `restartPolicy: Always`, " +
			"after the other containers have exited (KEP-753).",
		Fix: "Move the container to `initContainers`, and set its `restartPolicy: Always`.",
	}}
}

func checkSidecarNeverExits(_ *input, w *labeledWorkload) []issue {
	if w.workload.Job == nil {
		return nil
	}
	var issues []issue
	for i, c := range w.workload.Template().Spec.Containers {
		isTraining := slices.ContainsFunc(w.gang.Containers, func(t gang.Container) bool { return t.Name == c.Name })
		program, ok := findEndlessProgram(command.Parse(c.Command, c.Args))
		if isTraining || !ok {
			continue
		}
		issues = append(issues, issue{
			field: fmt.Sprintf("%s.containers[%d].command", podSpecPath, i),
			message: fmt.Sprintf("container %s runs %s, which never exits, so the Job never completes",
				c.Name, program),
			fix: "move the container to initContainers with restartPolicy: Always",
		})
	}
	return issues
}

// findEndlessProgram returns the call of sleep or tail with which the command waits indefinitely. It
// returns false if there is none, or if the command may terminate it.
func findEndlessProgram(c command.Command) (string, bool) {
	if len(c.Programs) == 0 || c.MayRepeat {
		return "", false
	}
	words := []string{}
	last := c.Programs[len(c.Programs)-1]
	for _, a := range last.Args {
		words = append(words, a.Text)
	}
	isEndless := false
	switch last.Name {
	case "sleep":
		isEndless = slices.Contains(words, "infinity") || slices.Contains(words, "inf")
	case "tail":
		isEndless = slices.ContainsFunc(words, func(w string) bool { return w == "-f" || w == "-F" || w == "--follow" })
	}
	return strings.Join(append([]string{last.Name}, words...), " "), isEndless
}
