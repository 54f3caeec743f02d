package kubeflow

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// restart is the restart policy of one part.
type restart struct {
	role string
	node ledger.Node
}

// The restart policies of a replica.
const (
	restartNever     = "Never"
	restartOnFailure = "OnFailure"
	restartAlways    = "Always"
	restartExitCode  = "ExitCode"
)

// restartPolicies carries what happens when a pod fails. The operators have a policy for
// each part, and a gang has one: it never restarts when no part of it did.
func (r *reader) restartPolicies() {
	never := !slices.ContainsFunc(r.restarts, func(s restart) bool { return r.policy(s) != restartNever })
	if never && len(r.restarts) > 0 {
		r.blueprint.Keys[gang.AnnotationRestartPolicy] = string(gang.RestartNever)
	}
	for _, s := range r.restarts {
		if role := r.find(s.role); role != nil {
			r.restartPolicy(role, s, never)
		}
	}
}

func (r *reader) policy(s restart) string { return cmp.Or(s.node.String(), r.byDefault) }

func (r *reader) restartPolicy(role *blueprint.Role, s restart, never bool) {
	spec := &role.Template.Spec
	switch r.policy(s) {
	case restartNever:
		spec.RestartPolicy = corev1.RestartPolicyNever
		if never {
			s.node.Carried("annotation " + gang.AnnotationRestartPolicy + ": never")
			return
		}
		s.node.Changed("annotation "+gang.AnnotationRestartPolicy+": gang",
			"a gang has one policy, and another part of it restarts: when one of these pods fails, all ranks restart together", "")
	case restartOnFailure, restartAlways:
		spec.RestartPolicy = corev1.RestartPolicyOnFailure
		s.node.Changed("annotation "+gang.AnnotationRestartPolicy+": gang",
			"the operator restarts the one pod that failed, and its peers hang or fail; Rollcall restarts all ranks together",
			"set "+gang.AnnotationRestartPolicy+": pod for the former way")
	case restartExitCode:
		spec.RestartPolicy = corev1.RestartPolicyNever
		role.PodFailurePolicy = permanentCodes(r.trainer(spec))
		s.node.Changed("spec.podFailurePolicy",
			"exit codes from 1 to 127 fail the gang for good, as before; after others all ranks restart together, not the failed one alone", "")
	default:
		s.node.Invalid("must be Never, OnFailure, Always or ExitCode")
	}
}

// trainer is the name of the container whose exit code counts.
func (r *reader) trainer(spec *corev1.PodSpec) string {
	for _, c := range spec.Containers {
		if c.Name == r.container {
			return c.Name
		}
	}
	if len(spec.Containers) == 0 {
		return ""
	}
	return spec.Containers[0].Name
}

// permanentCodes is the rule of ExitCode: codes below 128, which are the program's own,
// are final; those of signals are not (training-operator, pkg/util/train/train_util.go).
func permanentCodes(container string) *batchv1.PodFailurePolicy {
	const firstOfSignals = 128
	var codes []int32
	for code := int32(1); code < firstOfSignals; code++ {
		codes = append(codes, code)
	}
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: ptr.To(container), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
		},
	}}}
}
