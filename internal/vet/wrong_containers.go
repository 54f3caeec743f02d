package vet

import (
	"slices"

	"rollcall.training/gang"
)

func containerChecks() []Check {
	return []Check{{
		Code: CodeWrongTrainingContainer, Severity: Warning, checkWorkload: checkWrongTrainingContainer,
		Title: "Another container than the training container seems to train",
		Why: "Without the annotation `" + gang.AnnotationContainers + "`, the training container is the default container " +
			"of kubectl. Only the training container gets the injected variables. " +
			"If a different container runs the training program, each pod trains separately, and the Job can still succeed.",
		Fix: "List the training container in the annotation `" + gang.AnnotationContainers + "`.",
	}, {
		Code: CodeTrainingContainerFound, Severity: Info, checkWorkload: checkTrainingContainerFound,
		Title: "The training container is not the first container",
		Why: "Without the annotation `" + gang.AnnotationContainers + "` and without a default container of kubectl, " +
			"the training container is the first container that runs a launcher or requests accelerators.",
		Fix: "If the container is wrong, set the annotation `" + gang.AnnotationContainers + "`.",
	}}
}

// Paths of the warnings of the webhook about the choice of the training container.
const (
	defaultContainerPath = "spec.template.metadata.annotations[kubectl.kubernetes.io/default-container]"
	containersPath       = "metadata.annotations[" + gang.AnnotationContainers + "]"
)

func checkWrongTrainingContainer(in *input, w *labeledWorkload) []issue {
	return selectIssues(checkAdmissionWarnings(in, w), defaultContainerPath)
}

func checkTrainingContainerFound(in *input, w *labeledWorkload) []issue {
	return selectIssues(checkAdmissionWarnings(in, w), containersPath)
}

func selectIssues(issues []issue, field string) []issue {
	return slices.DeleteFunc(issues, func(i issue) bool { return i.field != field })
}
