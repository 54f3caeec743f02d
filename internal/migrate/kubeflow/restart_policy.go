package kubeflow

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// The restart policies of a replica spec.
const (
	restartNever     = "Never"
	restartOnFailure = "OnFailure"
	restartAlways    = "Always"
	restartExitCode  = "ExitCode"
)

// Texts of the report about restarts.
const (
	targetGangRestart    = "annotation " + gang.AnnotationRestartPolicy + ": gang"
	targetPodRestart     = "annotation " + gang.AnnotationRestartPolicy + ": pod, the default of elastic gangs"
	actionKeepPodRestart = "set " + gang.AnnotationRestartPolicy + ": pod for the previous behavior"
	reasonGangRestart    = "the operator restarts only the failed pod, and its peers block or fail; " +
		"Rollcall restarts all ranks together"
	reasonLauncherRestart = "the operator's Job restarts only the launcher, up to its backoffLimit; " +
		"Rollcall restarts the workers with it"
)

// convertRestartPolicies converts the reaction to failed pods. The operators have a policy for each
// role, and Rollcall has one for the gang. A gang never restarts if none of its roles did.
func (r *reader) convertRestartPolicies() {
	policies, explicit := make([]string, len(r.gang.Roles)), false
	for i, f := range r.restartPolicies {
		policies[i] = r.restartPolicyOrDefault(r.gang.Roles[i], f)
		explicit = explicit || f.Exists()
	}
	isRestart := func(policy string) bool { return policy != restartNever }
	never := !r.launcherIsJob && !slices.ContainsFunc(policies, isRestart)
	if never {
		r.gang.SetAnnotation(gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))
	}
	for i, f := range r.restartPolicies {
		r.convertRestartPolicy(&r.gang.Roles[i], f, policies[i])
	}
	for i, f := range r.restartPolicies {
		if r.gang.RollcallAnnotations[gang.AnnotationNonRetriableExitCodes] != "" && policies[i] != restartExitCode {
			f.AddNote("a gang has one list of non-retriable exit codes; the list of another role applies to these pods too", "")
		}
	}
	switch {
	case explicit || never || r.elastic:
	case r.launcherIsJob:
		r.replicaSpecs.AddNoteOnAllJobs(source.TopicFailedPods, reasonLauncherRestart, actionKeepPodRestart)
	default:
		r.replicaSpecs.AddNoteOnAllJobs(source.TopicFailedPods, reasonGangRestart, actionKeepPodRestart)
	}
}

// restartPolicyOrDefault returns the restart policy of a role, or its default.
func (r *reader) restartPolicyOrDefault(role ir.Role, f source.Field) string {
	if r.launcherIsJob && role.Name == gang.RoleLauncher {
		return cmp.Or(f.String(), restartOnFailure)
	}
	return cmp.Or(f.String(), r.defaultRestartPolicy)
}

func (r *reader) convertRestartPolicy(role *ir.Role, f source.Field, policy string) {
	restartPolicy := &role.Template.Spec.RestartPolicy
	switch policy {
	case restartNever:
		*restartPolicy = corev1.RestartPolicyNever
		switch {
		case r.gang.NeverRestarts():
			f.MarkPreserved("annotation " + gang.AnnotationRestartPolicy + ": never")
		case r.launcherIsJob:
			reportLauncherJobRestart(role, f)
		case r.elastic:
			f.MarkChanged("spec.template.spec.restartPolicy", "the Job replaces a failed pod, and the gang does not fail", "")
		default:
			f.MarkChanged(targetGangRestart,
				"the policy Never of this role is lost: a gang has one policy, and another role restarts, "+
					"so all ranks restart if one of these pods fails", "")
		}
	case restartOnFailure, restartAlways:
		*restartPolicy = corev1.RestartPolicyOnFailure
		switch {
		case r.launcherIsJob:
			reportLauncherJobRestart(role, f)
		case r.elastic:
			f.MarkPreserved(targetPodRestart)
		default:
			f.MarkChangedInAllJobs(source.TopicFailedPods, targetGangRestart, reasonGangRestart, actionKeepPodRestart)
		}
	case restartExitCode:
		*restartPolicy = corev1.RestartPolicyNever
		r.convertExitCodePolicy(f)
	default:
		f.MarkInvalid("must be Never, OnFailure, Always or ExitCode")
	}
}

// reportLauncherJobRestart reports the restart policy of a job whose launcher was a Job.
func reportLauncherJobRestart(role *ir.Role, f source.Field) {
	reason := reasonLauncherRestart
	if role.Name != gang.RoleLauncher {
		reason = "the operator does not replace a failed worker; Rollcall restarts all ranks together"
	}
	f.MarkChangedInAllJobs(source.TopicFailedPods, targetGangRestart, reason, actionKeepPodRestart)
}

// convertExitCodePolicy converts the policy ExitCode: codes below 128, which are the program's own,
// are not retriable; codes of signals are (training-operator, pkg/util/train/train_util.go).
//
// The pods of an elastic gang restart by the rules of their Job, which do not use the annotation.
func (r *reader) convertExitCodePolicy(f source.Field) {
	if r.elastic {
		f.MarkDropped("the Job of an elastic gang replaces a failed pod after every exit code, up to its backoffLimit",
			"to fail the gang after some exit codes, add a podFailurePolicy with the action FailJob to the Job")
		return
	}
	r.gang.SetAnnotation(gang.AnnotationNonRetriableExitCodes, "1-127")
	f.MarkChanged("annotation "+gang.AnnotationNonRetriableExitCodes,
		"exit codes from 1 to 127 fail the gang, as before; "+
			"after other codes all ranks restart together, instead of only the failed pod", "")
}
