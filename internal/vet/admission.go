package vet

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rollcall.training/gang"
)

// podSpecPath is the path of the pod spec in a Job or StatefulSet.
const podSpecPath = "spec.template.spec"

func checkDenied(r *reporter, w *labeledWorkload) {
	if w.denial == nil {
		return
	}
	var status apierrors.APIStatus
	if !errors.As(w.denial, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		r.add("", "", "%s", w.denial.Error())
		return
	}
	for _, cause := range status.Status().Details.Causes {
		r.add(cause.Field, "", "%s", cause.Message)
	}
}

// warningCodes are the codes for the warnings of the webhook about the choice of the training container, by their
// path. All other warnings have the code AdmissionWarning.
var warningCodes = map[string]Code{
	"spec.template.metadata.annotations[kubectl.kubernetes.io/default-container]": CodeWrongTrainingContainer,
	"metadata.annotations[" + gang.AnnotationContainers + "]":                     "TrainingContainerFound",
}

// reportWarnings returns the check that reports the warnings of the webhook with a code.
func reportWarnings(code Code) func(*reporter, *labeledWorkload) {
	return func(r *reporter, w *labeledWorkload) {
		for _, warning := range w.warnings {
			codeOfWarning := cmp.Or(warningCodes[warning.Path], "AdmissionWarning")
			if warning.Advice {
				codeOfWarning = "DefaultOverridden"
			}
			if codeOfWarning == code {
				r.add(warning.Path, "", "%s", warning.Message)
			}
		}
	}
}

func checkUnknownFields(r *reporter, w *labeledWorkload) {
	for _, path := range w.unknownFields {
		r.add(path, "correct the spelling, or move the field",
			"is not a field of a %s, so kubectl rejects it and other clients drop it", w.target.Kind)
	}
}

func checkPodRestartPolicy(r *reporter, w *labeledWorkload) {
	const field = podSpecPath + ".restartPolicy"
	policy := w.admitted.Template().Spec.RestartPolicy
	switch {
	case w.admitted.Job != nil && policy == "":
		r.add(field, "set it to Never", "is not set and defaults to Always, which is invalid in a Job")
	case w.admitted.Job != nil && policy != corev1.RestartPolicyNever && policy != corev1.RestartPolicyOnFailure:
		r.add(field, "set it to Never", "is %s, but must be Never or OnFailure in a Job", policy)
	case w.admitted.StatefulSet != nil && policy != "" && policy != corev1.RestartPolicyAlways:
		r.add(field, "remove it, or use a batch/v1 Job", "is %s, but must be Always in a StatefulSet", policy)
	}
}

func checkExtendedResources(r *reporter, w *labeledWorkload) {
	for i, c := range w.admitted.Template().Spec.Containers {
		for _, name := range sortedResourceNames(c.Resources.Requests) {
			if !isExtendedResource(name) {
				continue
			}
			request := c.Resources.Requests[name]
			limit, hasLimit := c.Resources.Limits[name]
			field := fmt.Sprintf("%s.containers[%d].resources.requests[%s]", podSpecPath, i, name)
			switch {
			case !hasLimit:
				r.add(field, fmt.Sprintf("set resources.limits[%s]: %s instead", name, request.String()),
					"is %s without a limit, but the limit must be equal", request.String())
			case limit.Cmp(request) != 0:
				r.add(field, "set only the limit", "is %s, but must equal the limit (%s)", request.String(), limit.String())
			}
		}
	}
}

// isExtendedResource reports whether the name has a domain. Native resources such as cpu and memory
// have none.
func isExtendedResource(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/")
}
