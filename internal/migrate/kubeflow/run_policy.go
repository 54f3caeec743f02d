package kubeflow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// convertRunPolicyField converts a field of the run policy. The operators before training-operator
// had the fields in the spec. MPIJob has some of them in both places.
func (r *reader) convertRunPolicyField(name string, convert func(source.Field)) {
	policy, flat := r.spec.At("runPolicy", name), r.spec.Get(name)
	if !policy.Exists() {
		convert(flat)
		return
	}
	convert(policy)
	flat.MarkLeftOut("the field of runPolicy takes precedence")
}

func (r *reader) convertCleanPodPolicy(f source.Field) {
	if f.String() == "" {
		r.replicaSpecs.AddNoteOnAllJobs(source.TopicCleanup,
			"cleanPodPolicy is not set: the operator kept the pods of a finished job, and Rollcall deletes running pods",
			"set "+gang.AnnotationCleanPodPolicy+": none for the previous behavior")
		return
	}
	r.gang.SetAnnotation(gang.AnnotationCleanPodPolicy, strings.ToLower(f.String()))
	f.MarkPreserved("annotation " + gang.AnnotationCleanPodPolicy)
}

func (r *reader) convertBackoffLimit(f source.Field) {
	const differentCount = "the operator counts the restarts of all running containers; "
	const jobField = "spec.backoffLimit of each Job"
	limit := f.Int32()
	switch {
	// The operators replaced pods without a limit, and a launcher that was a Job had the limit of a Job.
	case limit == nil && r.launcherIsJob:
		r.gang.SetAnnotation(gang.AnnotationMaxRestarts, "6") // kubernetes pkg/apis/batch/v1/defaults.go
	case limit == nil && r.gang.NeverRestarts():
	case limit == nil && r.elastic:
		r.gang.JobSpec.BackoffLimit = ptr.To[int32](math.MaxInt32)
	case limit == nil:
		r.replicaSpecs.AddNoteOnAllJobs(source.TopicRestartLimit,
			fmt.Sprintf("backoffLimit is not set: the operator restarted pods without a limit, and Rollcall restarts the gang "+
				"at most %d times", gang.DefaultMaxRestarts),
			"set "+gang.AnnotationMaxRestarts+" for a different limit")
	case r.gang.NeverRestarts():
		f.MarkLeftOut("no role restarts")
	case r.elastic:
		r.gang.JobSpec.BackoffLimit = limit
		f.MarkChanged(jobField, differentCount+"a Job counts failed pods", "")
	default:
		r.gang.SetAnnotation(gang.AnnotationMaxRestarts, strconv.Itoa(int(min(*limit, gang.MaxRestarts))))
		reason := differentCount + "Rollcall counts restarts of the gang, one for all ranks that fail together"
		if r.launcherIsJob {
			reason = "the operator limits restarts of the launcher, and Rollcall limits restarts of the gang"
		}
		if *limit > gang.MaxRestarts {
			reason += fmt.Sprintf("; the maximum is %d", gang.MaxRestarts)
		}
		f.MarkChanged("annotation "+gang.AnnotationMaxRestarts, reason, "")
	}
}

// convertDeadline converts the time limit of the job. The limit of a Job restarts when the gang
// restarts, because a restart suspends the Job.
func (r *reader) convertDeadline(f source.Field) {
	const jobField = "spec.activeDeadlineSeconds of each Job"
	r.gang.JobSpec.ActiveDeadlineSeconds = f.Int64()
	switch {
	case r.gang.NeverRestarts() || r.elastic:
		f.MarkPreserved(jobField)
	default:
		f.MarkChanged(jobField, "the deadline of a Job restarts when the gang restarts", "")
	}
}

// convertSchedulingPolicy converts the request to a gang scheduler. A flag of the operator selected
// the scheduler. With that flag the operator created a PodGroup for each job, even without a
// schedulingPolicy.
func (r *reader) convertSchedulingPolicy(f source.Field) {
	minAvailable, queue, class := f.Get("minAvailable"), f.Get("queue"), f.Get("priorityClass")
	group := ir.PodGroup{MinMember: minAvailable.Int32(), Queue: queue.String(), PriorityClassName: class.String()}
	if f.HasErrors() {
		return
	}
	if !group.Apply(r.gang, r.Context.Scheduler) {
		if len(f.Keys()) > 0 {
			f.MarkDropped("the gang scheduler of the cluster is not known", "name it with --gang-scheduler")
		}
		return
	}
	minAvailable.MarkPreserved("PodGroup " + r.gang.Name)
	group.Record(r.gang, r.Context.Scheduler, class, queue, f.Get("minResources"), f.Get("scheduleTimeoutSeconds"))
}

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
	reasonGangRestart    = "the operator restarts at most the failed pod, and its peers block or fail; " +
		"Rollcall restarts all ranks together"
)

// convertRestartPolicies converts the reaction to failed pods. The operators have a policy for each
// role, and Rollcall has one for the gang. A gang never restarts if none of its roles did.
func (r *reader) convertRestartPolicies() {
	policies, explicit := make([]string, len(r.gang.Roles)), false
	for i, f := range r.restartPolicies {
		policies[i] = cmp.Or(f.String(), r.defaultRestartPolicy)
		if r.launcherIsJob && r.gang.Roles[i].Name == gang.RoleLauncher {
			policies[i] = cmp.Or(f.String(), restartOnFailure)
		}
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
	if !explicit && !never && !r.elastic {
		r.replicaSpecs.AddNoteOnAllJobs(source.TopicFailedPods, reasonGangRestart, actionKeepPodRestart)
	}
}

func (r *reader) convertRestartPolicy(role *ir.Role, f source.Field, policy string) {
	role.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	if policy == restartNever || policy == restartExitCode {
		role.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	switch isNever := policy == restartNever; {
	case !slices.Contains([]string{restartNever, restartOnFailure, restartAlways, restartExitCode}, policy):
		f.MarkInvalid("must be Never, OnFailure, Always or ExitCode")
	case policy == restartExitCode:
		r.convertExitCodePolicy(f)
	case r.gang.NeverRestarts():
		f.MarkPreserved("annotation " + gang.AnnotationRestartPolicy + ": never")
	case r.elastic && isNever:
		f.MarkChanged("spec.template.spec.restartPolicy", "the Job replaces a failed pod, and the gang does not fail", "")
	case r.elastic:
		f.MarkPreserved(targetPodRestart)
	case isNever && !r.launcherIsJob:
		f.MarkChanged(targetGangRestart,
			"the policy Never of this role is lost: a gang has one policy, and another role restarts, "+
				"so all ranks restart if one of these pods fails", "")
	default:
		f.MarkChangedInAllJobs(source.TopicFailedPods, targetGangRestart, reasonGangRestart, actionKeepPodRestart)
	}
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
