package traces

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// newJob returns a Job of 3 ranks with the fields that Rollcall sets. A rank can fail once.
func newJob(changes ...func(*batchv1.Job)) client.Object {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec: batchv1.JobSpec{
			CompletionMode: ptr.To(batchv1.IndexedCompletion), Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](3),
			BackoffLimit: ptr.To[int32](math.MaxInt32), BackoffLimitPerIndex: ptr.To[int32](1),
			MaxFailedIndexes: ptr.To[int32](0), Suspend: ptr.To(false), Template: newTemplate(corev1.RestartPolicyNever),
		},
	}
	for _, change := range changes {
		change(job)
	}
	return job
}

func newTemplate(restartPolicy corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{gang.LabelAttempt: "0"}},
		Spec: corev1.PodSpec{
			RestartPolicy: restartPolicy, TerminationGracePeriodSeconds: ptr.To[int64](30),
			Containers: []corev1.Container{{Name: container, Image: "example.com/train:1"}},
			Tolerations: []corev1.Toleration{{
				Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5),
			}},
		},
	}
}

// onFailure lets the kubelet restart containers, so that the limit is the sum for all ranks.
func onFailure(job *batchv1.Job) {
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	job.Spec.BackoffLimit, job.Spec.BackoffLimitPerIndex, job.Spec.MaxFailedIndexes = ptr.To[int32](6), nil, nil
}

func firstRankDecides(job *batchv1.Job) {
	job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}}}
}

func suspended(job *batchv1.Job) { job.Spec.Suspend = ptr.To(true) }

func replacesFailed(job *batchv1.Job) { job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed) }

// unscheduled keeps pods without a node.
func unscheduled(job *batchv1.Job) {
	job.Spec.Template.Spec.NodeSelector = map[string]string{"example.com/none": "true"}
}

func newStatefulSet() client.Object {
	template := newTemplate(corev1.RestartPolicyAlways)
	template.Labels = map[string]string{gang.LabelGang: "train"}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](3), ServiceName: "train", PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
		},
	}
}

// Scripts are all scripts.
var Scripts = []Script{
	{Name: "all ranks succeed", Workload: newJob(), Steps: []Step{
		start(), exit(1, 0), exit(0, 0), exit(2, 0),
	}},
	{Name: "the first rank decides", Workload: newJob(firstRankDecides), Steps: []Step{
		start(), exit(1, 0), exit(0, 0), allTerminated(143),
	}},
	{Name: "the first rank decides while another one has failed", Workload: newJob(firstRankDecides), Steps: []Step{
		start(), exit(2, 1), start(), exit(0, 0), allTerminated(0),
	}},
	{Name: "a rank fails once and twice", Workload: newJob(), Steps: []Step{
		start(), exit(1, 1), start(), exit(1, 1), allTerminated(143),
	}},
	{Name: "a failed gang restarts", Workload: newJob(), Steps: []Step{
		start(), exit(1, 1), suspend(), terminated(0, 143), terminated(2, 1), reset(), resume("1"), start(),
		exit(0, 0), exit(1, 0), exit(2, 0),
	}},
	{Name: "a completed rank runs again", Workload: newJob(), Steps: []Step{
		start(), exit(2, 0), suspend(), allTerminated(0), reset(), resume("1"), start(), exit(2, 0),
	}},
	{Name: "a rank succeeds after its suspension", Workload: newJob(), Steps: []Step{
		start(), suspend(), exit(0, 0), terminated(0, 0), allTerminated(1), resume("0"), start(),
	}},
	{Name: "a suspended Job keeps its status", Workload: newJob(), Steps: []Step{
		start(), exit(2, 0), suspend(), allTerminated(143), resume("1"), start(),
	}},
	{Name: "a template changes while pods terminate", Workload: newJob(), Steps: []Step{
		start(), suspend(), reset(), resume("1"), allTerminated(143), start(),
	}},
	{Name: "a running Job is changed", Workload: newJob(), Steps: []Step{
		start(), reset(), resume("1"), resizeJob(2), allTerminated(143), resizeJob(4), start(),
	}},
	{Name: "a Job is created suspended", Workload: newJob(suspended), Steps: []Step{
		resume("3"), start(), suspend(), allTerminated(143),
	}},
	{Name: "a rank is evicted and another one fails", Workload: newJob(), Steps: []Step{
		start(), evict(1), terminated(1, 143), start(), suspend(), allTerminated(143), reset(), resume("1"),
	}},
	{Name: "a gang restarts while an evicted rank terminates", Workload: newJob(), Steps: []Step{
		start(), evict(1), suspend(), allTerminated(143), reset(), resume("1"), start(),
	}},
	{Name: "an evicted rank succeeds", Workload: newJob(), Steps: []Step{
		start(), evict(1), terminated(1, 0), suspend(), allTerminated(143), reset(), resume("1"),
	}},
	{Name: "a suspended Job with an evicted rank that succeeds", Workload: newJob(), Steps: []Step{
		start(), evict(1), suspend(), exit(1, 0), allTerminated(0), reset(), resume("1"),
	}},
	{Name: "a pod is deleted", Workload: newJob(), Steps: []Step{
		start(), deletePod(2), start(), allTerminated(0), forceDelete(0), start(),
	}},
	{Name: "pods without a node", Workload: newJob(unscheduled), Steps: []Step{
		suspend(), reset(), resume("1"), deleteWorkload(),
	}},
	{Name: "only failed pods are replaced", Workload: newJob(replacesFailed), Steps: []Step{
		start(), evict(1), terminated(1, 143), start(), suspend(), allTerminated(0), reset(), resume("1"),
	}},
	{Name: "the limit is the sum for all ranks", Workload: newJob(onFailure), Steps: []Step{
		start(), evict(1), terminated(1, 143), start(), suspend(), allTerminated(143), reset(), resume("1"),
	}},
	{Name: "the limit for all ranks is exceeded", Workload: newJob(onFailure, func(job *batchv1.Job) {
		job.Spec.BackoffLimit = ptr.To[int32](0)
	}), Steps: []Step{start(), exit(1, 1), terminated(0, 143), terminated(2, 0)}},
	{Name: "a container exceeds the limit for all ranks", Workload: newJob(onFailure, func(job *batchv1.Job) {
		job.Spec.BackoffLimit = ptr.To[int32](2)
	}), Steps: []Step{start(), restart(1, 1), restart(1, 2), allTerminated(143)}},
	{Name: "a gang fails by its deadline", Workload: newJob(), Steps: []Step{
		start(), exit(2, 0), changeJob("the deadline passes", "", func(job *batchv1.Job) {
			job.Spec.ActiveDeadlineSeconds = ptr.To[int64](1)
		}), terminated(0, 143), terminated(1, 143),
	}},
	{Name: "a suspended gang fails by its deadline", Workload: newJob(), Steps: []Step{
		start(), exit(1, 1), suspend(), terminated(0, 143), terminated(2, 143), untrack(1),
		changeJob("the deadline passes", "", func(job *batchv1.Job) {
			job.Spec.ActiveDeadlineSeconds, job.Spec.Suspend = ptr.To[int64](0), ptr.To(false)
		}), allTerminated(143),
	}},
	{Name: "a suspended Job is resized to 0", Workload: newJob(), Steps: []Step{
		start(), exit(1, 1), suspend(), allTerminated(143), resizeJob(0),
	}},
	{Name: "a running Job is resized to 0", Workload: newJob(), Steps: []Step{start(), resizeJob(0), allTerminated(143)}},
	{Name: "a finished Job expires", Workload: newJob(func(job *batchv1.Job) {
		job.Spec.TTLSecondsAfterFinished = ptr.To[int32](4)
	}), Steps: []Step{start(), exit(0, 0), exit(1, 0), exit(2, 0)}},
	{Name: "a running Job is deleted", Workload: newJob(), Steps: []Step{
		start(), exit(1, 1), deleteWorkload(), allTerminated(143),
	}},
	{Name: "a suspended Job is deleted", Workload: newJob(), Steps: []Step{
		start(), exit(1, 1), suspend(), deleteWorkload(), allTerminated(143),
	}},
	{Name: "the node is lost", Workload: newJob(func(job *batchv1.Job) {
		job.Spec.Completions, job.Spec.Parallelism = ptr.To[int32](1), ptr.To[int32](1)
	}), Steps: []Step{
		start(), {Name: "the node is lost", do: func(r *run) error { return r.LoseNode() }},
		suspend(), terminated(0, 143),
		{Name: "the node is removed", do: func(r *run) error { return r.RemoveNode() }}, reset(), resume("1"),
	}},
	{Name: "a StatefulSet restarts", Workload: newStatefulSet(), Steps: []Step{
		start(), scaleSet(0), terminated(2, 0), allTerminated(1), scaleSet(3), start(),
	}},
	{Name: "a StatefulSet is scaled up while it terminates", Workload: newStatefulSet(), Steps: []Step{
		start(), scaleSet(0), scaleSet(3), terminated(1, 143), allTerminated(143), start(), scaleSet(2), scaleSet(4),
	}},
	{Name: "pods of a StatefulSet fail and are deleted", Workload: newStatefulSet(), Steps: []Step{
		start(), exit(1, 1), deletePod(2), terminated(2, 0), evict(0), forceDelete(0), start(), deleteWorkload(),
		allTerminated(143),
	}},
	{Name: "a StatefulSet is updated", Workload: newStatefulSet(), Steps: []Step{
		start(), updateSet(), allTerminated(143), start(), allTerminated(0), start(),
	}},
	{Name: "a StatefulSet is updated before its pods are ready", Workload: newStatefulSet(), Steps: []Step{
		updateSet(), terminated(0, 143), terminated(1, 143), terminated(2, 143), ready(2), ready(0), ready(1),
	}},
}
