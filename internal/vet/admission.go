package vet

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rollcall.training/gang"
)

// podSpecPath is the path of the pod spec in a Job or StatefulSet.
const podSpecPath = "spec.template.spec"

func admissionChecks() []Check {
	return []Check{
		{
			Code: CodeDenied, Severity: Error, checkWorkload: checkDenied,
			Title: "The webhook rejects the workload",
			Why:   "The API server does not create the workload. The finding repeats the message of the webhook.",
			Fix:   "Follow the message, which names the allowed values.",
		},
		{
			Code: CodeAdmissionWarning, Severity: Warning, checkWorkload: checkOtherWarnings,
			Title: "The webhook admits the workload with a warning",
			Why: "Part of the workload has no effect or is probably a mistake. " +
				"The finding repeats the message of the webhook.",
			Fix: "Follow the message.",
		},
		{
			Code: CodeDefaultOverridden, Severity: Info, checkWorkload: checkOverriddenDefaults,
			Title: "A variable has a different value than the default of Rollcall",
			Why:   "Rollcall keeps the value, and the default suits most programs.",
			Fix:   "Remove the variable, unless the program needs the value.",
		},
		{
			Code: CodeUnknownField, Severity: Warning, checkWorkload: checkUnknownFields,
			Title: "A field does not exist in the Kubernetes API",
			Why: "kubectl apply rejects the field, because its field validation is Strict by default (KEP-2885). " +
				"Other clients drop the field silently. vet also reports a field that is newer than this build of rollcall.",
			Fix: "Correct the spelling, or move the field to the right place.",
		},
		{
			Code: CodePodRestartPolicy, Severity: Error, checkGang: checkPodRestartPolicy,
			Title: "The restartPolicy of the pods is invalid for the kind of the workload",
			Why: "The API server rejects the workload. The pods of a Job need Never or OnFailure, and the default is Always. " +
				"The pods of a StatefulSet need Always. " +
				"The rules are in pkg/apis/batch/validation and pkg/apis/apps/validation of Kubernetes.",
			Fix: "Set `restartPolicy: Never` in the pod template of a Job. " +
				"Remove the field from the pod template of a StatefulSet.",
		},
		{
			Code: CodeExtendedResource, Severity: Error, checkGang: checkExtendedResources,
			Title: "Accelerators are requested without an equal limit",
			Why: "The API server rejects the workload. An extended resource cannot be overcommitted, " +
				"so its request and its limit must be equal (pkg/apis/core/validation of Kubernetes).",
			Fix: "Set only the limit, and the request defaults to it. Or use the annotation `" + gang.AnnotationGPUs + "`.",
		},
	}
}

func checkDenied(_ *input, w *labeledWorkload) []issue {
	if w.denial == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(w.denial, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []issue{{message: w.denial.Error()}}
	}
	var issues []issue
	for _, cause := range status.Status().Details.Causes {
		issues = append(issues, issue{field: cause.Field, message: cause.Message})
	}
	return issues
}

func checkAdmissionWarnings(_ *input, w *labeledWorkload) []issue { return admissionIssues(w, false) }

// admissionIssues returns the warnings of the webhook, or its advice.
func admissionIssues(w *labeledWorkload, advice bool) []issue {
	var issues []issue
	for _, warning := range w.result.Warnings {
		if warning.Advice == advice {
			issues = append(issues, issue{field: warning.Path, message: warning.Message})
		}
	}
	return issues
}

func checkUnknownFields(_ *input, w *labeledWorkload) []issue {
	var issues []issue
	for _, path := range w.unknownFields {
		issues = append(issues, issue{
			field:   path,
			message: fmt.Sprintf("is not a field of a %s, so kubectl rejects it and other clients drop it", w.target.Kind),
			fix:     "correct the spelling, or move the field",
		})
	}
	return issues
}

func checkPodRestartPolicy(_ *input, w *labeledWorkload) []issue {
	const field = podSpecPath + ".restartPolicy"
	policy := w.admitted.Template().Spec.RestartPolicy
	switch {
	case w.admitted.Job != nil && policy == "":
		return []issue{{
			field:   field,
			message: "is not set and defaults to Always, which is invalid in a Job",
			fix:     "set it to Never",
		}}
	case w.admitted.Job != nil && policy != corev1.RestartPolicyNever && policy != corev1.RestartPolicyOnFailure:
		return []issue{{
			field:   field,
			message: fmt.Sprintf("is %s, but must be Never or OnFailure in a Job", policy),
			fix:     "set it to Never",
		}}
	case w.admitted.StatefulSet != nil && policy != "" && policy != corev1.RestartPolicyAlways:
		return []issue{{
			field:   field,
			message: fmt.Sprintf("is %s, but must be Always in a StatefulSet", policy),
			fix:     "remove it, or use a batch/v1 Job",
		}}
	}
	return nil
}

func checkExtendedResources(_ *input, w *labeledWorkload) []issue {
	var issues []issue
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
				issues = append(issues, issue{
					field:   field,
					message: fmt.Sprintf("is %s without a limit, but the limit must be equal", request.String()),
					fix:     fmt.Sprintf("set resources.limits[%s]: %s instead", name, request.String()),
				})
			case limit.Cmp(request) != 0:
				issues = append(issues, issue{
					field:   field,
					message: fmt.Sprintf("is %s, but must equal the limit (%s)", request.String(), limit.String()),
					fix:     "set only the limit",
				})
			}
		}
	}
	return issues
}

// isExtendedResource reports whether the name has a domain. Native resources such as cpu and memory
// have none.
func isExtendedResource(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/")
}
