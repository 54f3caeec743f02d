package vet

import (
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rollcall.training/gang"
)

// templateSpec is the path of the pod template's spec.
const templateSpec = "spec.template.spec"

func ofAdmission() []Check {
	return []Check{
		{
			Code: CodeDenied, Severity: Error, workload: denied,
			Title: "Rollcall's webhook would refuse the workload",
			Why:   "It would not be created at all. The text is the webhook's own.",
			Fix:   "The message says what is allowed.",
		},
		{
			Code: CodeAdmissionWarning, Severity: Warning, workload: warned,
			Title: "Rollcall's webhook would admit the workload with a warning",
			Why:   "Something in it has no effect, or is probably not meant. The text is the webhook's own.",
			Fix:   "The message says what to do.",
		},
		{
			Code: CodeUnknownField, Severity: Warning, workload: unknownField,
			Title: "A field that Kubernetes does not have",
			Why:   "kubectl apply refuses it (its field validation is Strict by default, KEP-2885), and other clients drop it in silence. A field that is newer than this build of rollcall is found too.",
			Fix:   "Mend the spelling, or move the field to where it belongs.",
		},
		{
			Code: CodePodRestartPolicy, Severity: Error, gang: podRestartPolicy,
			Title: "The pods' restartPolicy is not one that the kind of workload can have",
			Why:   "The API server refuses it: pods of a Job need Never or OnFailure, and have Always when nothing is written; those of a StatefulSet need Always (Kubernetes, pkg/apis/batch/validation and pkg/apis/apps/validation).",
			Fix:   "Set `restartPolicy: Never` in the pod template of a Job; remove it from that of a StatefulSet.",
		},
		{
			Code: CodeExtendedResource, Severity: Error, gang: extendedResource,
			Title: "Accelerators are requested without an equal limit",
			Why:   "The API server refuses it: an extended resource is not shared, so its limit and its request have to be equal (Kubernetes, pkg/apis/core/validation).",
			Fix:   "Set the limit alone; the request follows. Or use the annotation `" + gang.AnnotationGPUs + "`.",
		},
	}
}

func denied(_ *input, m *member) []remark {
	if m.denial == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(m.denial, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return say("", "%v", m.denial).do("")
	}
	var out []remark
	for _, c := range status.Status().Details.Causes {
		out = append(out, remark{field: c.Field, message: c.Message})
	}
	return out
}

func warned(_ *input, m *member) []remark {
	var out []remark
	for _, w := range m.result.Warnings {
		field, message, ok := strings.Cut(w, ": ")
		if !ok || strings.Contains(field, " ") {
			field, message = "", w
		}
		out = append(out, remark{field: field, message: message})
	}
	return out
}

func unknownField(_ *input, m *member) []remark {
	var out []remark
	for _, path := range m.unknown {
		out = append(out, remark{field: path, message: fmt.Sprintf("a %s has no such field, so it would be refused or dropped", m.read.Kind), fix: "mend its spelling or its place"})
	}
	return out
}

func podRestartPolicy(_ *input, m *member) []remark {
	const field = templateSpec + ".restartPolicy"
	have := m.admitted.Template().Spec.RestartPolicy
	switch {
	case m.admitted.Job != nil && have == "":
		return say(field, "is not set, and then means Always, which a Job cannot have").do("set it to Never")
	case m.admitted.Job != nil && have != corev1.RestartPolicyNever && have != corev1.RestartPolicyOnFailure:
		return say(field, "a Job cannot have %s", have).do("set it to Never")
	case m.admitted.StatefulSet != nil && have != "" && have != corev1.RestartPolicyAlways:
		return say(field, "a StatefulSet cannot have %s", have).do("remove it, or use a %s", batchv1.SchemeGroupVersion.String()+" Job")
	}
	return nil
}

func extendedResource(_ *input, m *member) []remark {
	var out []remark
	for i, c := range m.admitted.Template().Spec.Containers {
		for _, name := range sortedNames(c.Resources.Requests) {
			if !strings.Contains(string(name), "/") {
				continue // cpu, memory and their kind
			}
			request := c.Resources.Requests[name]
			limit, ok := c.Resources.Limits[name]
			field := fmt.Sprintf("%s.containers[%d].resources.requests[%s]", templateSpec, i, name)
			switch {
			case !ok:
				out = append(out, say(field, "%s without a limit", request.String()).do("write resources.limits[%s]: %s instead", name, request.String())...)
			case limit.Cmp(request) != 0:
				out = append(out, say(field, "%s, and the limit is %s", request.String(), limit.String()).do("write the limit alone")...)
			}
		}
	}
	return out
}
