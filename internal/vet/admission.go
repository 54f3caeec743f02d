package vet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest/typeerror"
	"rollcall.training/internal/policy"
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
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
			isExtended := strings.Contains(string(name), "/") // native resources such as cpu have no domain
			if !isExtended {
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

func checkUndecodable(r *reporter, o *inputObject) {
	if o.decodeError == nil || o.labeled == nil {
		return
	}
	mismatches := typeerror.Explain(o.target.JSON, o.decodeError)
	if len(mismatches) == 0 {
		r.add(o.fieldPath(""), "", "%s", o.decodeError.Error())
	}
	for _, m := range mismatches {
		r.add(o.fieldPath(m.Path), m.Fix, "%s", m.Message)
	}
}

func checkDuplicateObject(r *reporter, o *inputObject) {
	first := r.findObject(o.Kind, o.namespace, o.Name)
	if o.labeled == nil || o.Name == "" || first == o || first.Document.Source != o.Document.Source {
		return
	}
	r.add("metadata.name", "rename or delete one of the two",
		"another %s with this name is on line %d, and the later one overwrites it or is rejected",
		o.Kind, first.Line("metadata.name"))
}

func checkTemplateVariables(r *reporter, o *inputObject) {
	isRejected := o.labeled != nil && (o.decodeError != nil || o.labeled.denial != nil)
	if !isRejected {
		return
	}
	variable, path, found := o.FindTemplateVariable()
	if !found {
		return
	}
	r.add(path, "substitute the variables first, for example with envsubst",
		"contains the variable %s of a template", variable)
}

func checkPodTemplate(r *reporter, w *labeledWorkload) {
	spec := w.workload.Template().Spec
	r.checkContainers(w, podSpecPath+".initContainers", spec.InitContainers)
	r.checkContainers(w, podSpecPath+".containers", spec.Containers)
}

// checkContainers reports containers without an image, and mounts of volumes that do not exist.
func (r *reporter) checkContainers(w *labeledWorkload, path string, containers []corev1.Container) {
	for i, c := range containers {
		containerPath := fmt.Sprintf("%s[%d]", path, i)
		if c.Image == "" {
			r.add(containerPath+".image",
				"set the image; if the document is a patch of Kustomize, run kustomize build and vet its output",
				"is required, and the container %s has no image", c.Name)
		}
		for j, mount := range c.VolumeMounts {
			if !w.hasVolume(mount.Name) {
				r.add(fmt.Sprintf("%s.volumeMounts[%d].name", containerPath, j), "",
					"is %q, and the pod template has no volume with this name", mount.Name)
			}
		}
	}
}

// hasVolume reports whether the pods of the workload have a volume with the given name.
func (w *labeledWorkload) hasVolume(name string) bool {
	if set := w.workload.StatefulSet; set != nil {
		for _, claim := range set.Spec.VolumeClaimTemplates {
			if claim.Name == name {
				return true
			}
		}
	}
	return slices.ContainsFunc(w.workload.Template().Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}

// policySeverities are the severities of findings by the mode of the rule.
var policySeverities = map[policy.Mode]Severity{
	policy.ModeEnforce: Error, policy.ModeWarn: Warning, policy.ModeAudit: Info,
}

func checkPolicy(r *reporter, w *labeledWorkload) {
	if r.admission.Policy == nil {
		return
	}
	var members []policy.Member
	self := 0
	for _, m := range w.group.members {
		if m == w {
			self = len(members)
		}
		if m.gang != nil {
			members = append(members, policy.Member{Gang: *m.gang, Workload: m.admitted})
		}
	}
	for _, f := range r.admission.Policy.Judge(r.admission.NewInput(w.namespace, members))[self].Findings {
		severity := policySeverities[f.Mode]
		if f.Unknown {
			severity = Info
		}
		r.findings = append(r.findings, Finding{Field: f.Field, Message: f.Message, Severity: severity, Rule: f.Rule})
	}
}
