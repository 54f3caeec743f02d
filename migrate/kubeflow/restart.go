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

// What is said of them.
const (
	toGang       = "annotation " + gang.AnnotationRestartPolicy + ": gang"
	doPod        = "set " + gang.AnnotationRestartPolicy + ": pod for the former way"
	together     = "the operator restarts the one pod that failed, and its peers hang or fail; Rollcall restarts all ranks together"
	launcherAnew = "the operator's Job starts the launcher anew, up to its backoffLimit; Rollcall restarts the workers with it"
	byItself     = "annotation " + gang.AnnotationRestartPolicy + ": pod, as elastic gangs have by default"
	finalCodes   = "exit codes from 1 to 127 fail the gang for good, as before; after others "
)

// restartPolicies carries what happens when a pod fails. The operators have a policy for
// each part, and a gang has one: it never restarts when no part of it did.
func (r *reader) restartPolicies() {
	never := !r.relaunches && !slices.ContainsFunc(r.restarts, func(s restart) bool { return r.policy(s) != restartNever })
	if never {
		r.blueprint.Keys[gang.AnnotationRestartPolicy] = string(gang.RestartNever)
	}
	named := false
	for _, s := range r.restarts {
		named = named || s.node.Exists()
		if role := r.find(s.role); role != nil {
			r.restartPolicy(role, s, never)
		}
	}
	for _, s := range r.restarts {
		if r.blueprint.Keys[gang.AnnotationFinalCodes] != "" && r.policy(s) != restartExitCode {
			s.node.Note("a gang has one list of final exit codes: that of another part holds for these pods, too", "")
		}
	}
	switch {
	case named || never || r.elastic:
	case r.relaunches:
		r.at.Note(launcherAnew, doPod)
	default:
		r.at.Note(together, doPod)
	}
}

// policy is what a part says, or what holds where it says nothing.
func (r *reader) policy(s restart) string {
	if r.relaunches && s.role == gang.RoleLauncher {
		return cmp.Or(s.node.String(), restartOnFailure)
	}
	return cmp.Or(s.node.String(), r.byDefault)
}

func (r *reader) restartPolicy(role *blueprint.Role, s restart, never bool) {
	spec := &role.Template.Spec
	switch r.policy(s) {
	case restartNever:
		spec.RestartPolicy = corev1.RestartPolicyNever
		switch {
		case never:
			s.node.Carried("annotation " + gang.AnnotationRestartPolicy + ": never")
		case r.relaunches:
			r.relaunched(role, s)
		case r.elastic:
			s.node.Changed("spec.template.spec.restartPolicy", "a pod of it that fails does not fail the job: the workload makes another", "")
		default:
			s.node.Changed(toGang, "a gang has one policy, and another part of it restarts: when one of these pods fails, all ranks restart together", "")
		}
	case restartOnFailure, restartAlways:
		spec.RestartPolicy = corev1.RestartPolicyOnFailure
		switch {
		case r.relaunches:
			r.relaunched(role, s)
		case r.elastic:
			s.node.Carried(byItself)
		default:
			s.node.Changed(toGang, together, doPod)
		}
	case restartExitCode:
		r.exitCode(role, s)
	default:
		s.node.Invalid("must be Never, OnFailure, Always or ExitCode")
	}
}

// relaunched is for launchers that were Jobs: a Job starts its pod anew up to its
// backoffLimit, and nobody looked after the workers.
func (r *reader) relaunched(role *blueprint.Role, s restart) {
	if role.Name == gang.RoleLauncher {
		s.node.Changed(toGang, launcherAnew, doPod)
		return
	}
	s.node.Changed(toGang, "the operator leaves a worker that failed as it is; Rollcall restarts all ranks together", doPod)
}

// exitCode carries the rule that tells final codes from others. Ranks of an elastic gang
// come and go by their Job's own rules, so that is where it goes; a StatefulSet has none.
//
// A gang that restarts as one cannot have it there: the Job controller looks at pods that
// are being stopped, too (kubernetes, pkg/controller/job, getFailJobMessage), and a rank
// that ends with a code of its own when it is told to stop would end the gang instead (docs/adr/0017).
func (r *reader) exitCode(role *blueprint.Role, s restart) {
	spec := &role.Template.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	if r.scaled && role.Set { // a master is a Job beside it
		s.node.Lost("the workload is a StatefulSet for its autoscaler, and starts its pods anew whatever their exit code", "")
		return
	}
	if r.elastic {
		role.Set = false
		role.PodFailurePolicy = permanentCodes(spec.Containers[trainer(spec, r.container)].Name)
		s.node.Carried("spec.podFailurePolicy; " + finalCodes + "the Job makes another pod")
		return
	}
	r.blueprint.Keys[gang.AnnotationFinalCodes] = "1-127"
	s.node.Changed("annotation "+gang.AnnotationFinalCodes, finalCodes+"all ranks restart together, not the failed one alone", "")
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
		// A pod that is drained or preempted ends with whatever its program ends with then.
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}, {
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: ptr.To(container), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
		},
	}}}
}
