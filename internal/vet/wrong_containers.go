package vet

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

func containerChecks() []Check {
	return []Check{{
		Code: CodeWrongTrainingContainer, Severity: Warning, checkGang: checkWrongTrainingContainer,
		Title: "Another container than the training container seems to train",
		Why: "Without the annotation `" + gang.AnnotationContainers + "`, the training container is the default container " +
			"of kubectl, or else the first container. Only the training container gets the injected variables. " +
			"If a different container runs the training program, each pod trains separately, and the Job can still succeed.",
		Fix: "List the training container in the annotation `" + gang.AnnotationContainers + "`.",
	}}
}

func checkWrongTrainingContainer(in *input, w *labeledWorkload) []issue {
	_, isExplicit := w.target.Annotations[gang.AnnotationContainers]
	containers := w.workload.Template().Spec.Containers
	if isExplicit || len(containers) < 2 || len(w.gang.Containers) == 0 {
		return nil
	}
	chosen := w.gang.Containers[0].Name
	requested := in.acceleratorContainers(w)
	var issues []issue
	for i := range containers {
		c := &containers[i]
		reason := ""
		launchers := launcherNames(command.Parse(c.Command, c.Args))
		switch {
		case len(launchers) > 0:
			reason = "runs " + launchers[0]
		case slices.Contains(requested, c.Name):
			reason = "requests accelerators"
		default:
			continue
		}
		if c.Name == chosen {
			return nil
		}
		issues = append(issues, issue{
			field: fmt.Sprintf("%s.containers[%d]", podSpecPath, i),
			message: fmt.Sprintf("container %s %s, but the variables of Rollcall are only in container %s",
				c.Name, reason, chosen),
			fix: fmt.Sprintf("set %s: %s", gang.AnnotationContainers, c.Name),
		})
	}
	return issues
}

// acceleratorContainers returns the names of the containers that request accelerators themselves,
// and not with an annotation.
func (in *input) acceleratorContainers(w *labeledWorkload) []string {
	described := w.workload.DeepCopy()
	var names []string
	for _, c := range described.Template().Spec.Containers {
		names = append(names, c.Name)
	}
	annotations := described.Meta().Annotations
	if annotations == nil {
		annotations = map[string]string{}
		described.Meta().Annotations = annotations
	}
	annotations[gang.AnnotationContainers] = strings.Join(names, ",")
	delete(annotations, gang.AnnotationGPUs)
	delete(annotations, gang.AnnotationGPUResource)
	result, err := in.engine.Describe(described)
	if err != nil {
		return nil
	}
	var requested []string
	for _, c := range result.Gang.Containers {
		if c.Accelerators > 0 {
			requested = append(requested, c.Name)
		}
	}
	return requested
}
