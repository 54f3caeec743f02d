package simulation

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// trainingImage is the image of the training container.
const trainingImage = "example.com/train:1"

// image returns the image of a changed template, which is the first one for the value 1.
func (i Incident) image() string {
	if i.Value > 0 {
		return trainingImage
	}
	return "example.com/train:" + i.At.String()
}

// manifest returns a member of the gang as its user writes it, with the defaults of the API server.
func (s Scenario) manifest(m memberSpec) client.Object {
	meta := metav1.ObjectMeta{
		Namespace: namespace, Name: m.name,
		Labels:      map[string]string{gang.LabelFramework: s.framework()},
		Annotations: map[string]string{gang.AnnotationMaxRestarts: strconv.Itoa(int(s.MaxRestarts))},
	}
	set := func(key, value string) {
		if value != "" {
			meta.Annotations[key] = value
		}
	}
	set(gang.AnnotationRestartPolicy, s.RestartPolicy)
	set(gang.AnnotationNonRetriableExitCodes, s.NonRetriable)
	set(gang.AnnotationElastic, s.Elastic)
	s.annotateLifecycle(set)
	if m.role != "" {
		meta.Labels[gang.LabelGang], meta.Labels[gang.LabelRole] = gangName, m.role
		members := s.members()
		set(gang.AnnotationRoles, fmt.Sprintf("%s=%d,%s=%d",
			members[0].role, members[0].size, members[1].role, members[1].size))
		if s.Shape == launcher {
			set(gang.AnnotationSlotsPerWorker, "1")
		}
		if s.Shape == equalJobs && m.name == members[0].name { // the other member need not repeat it
			set(gang.AnnotationSuccessPolicy, gang.SuccessPolicyAll)
		}
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr.To[int64](30),
		Containers: []corev1.Container{{
			Name: trainer, Image: trainingImage, Command: []string{"python", "train.py"},
		}},
	}}
	if m.isStatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(m.size), Template: template, UpdateStrategy: s.updateStrategy(),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{gang.LabelGang: gangName}},
		}}
	}
	template.Spec.RestartPolicy = corev1.RestartPolicy(s.PodRestartPolicy)
	job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		Parallelism: ptr.To(m.size), Completions: ptr.To(m.size), BackoffLimit: ptr.To(s.backoffLimit()),
		CompletionMode: ptr.To(batchv1.NonIndexedCompletion), Template: template,
	}}
	if s.IgnoresDisruptions {
		ignoreDisruptions(job)
	}
	if s.SucceededCount > 0 {
		needSomeRanks(job, s.SucceededCount)
	}
	if s.ActiveDeadline > 0 && m.name == s.members()[len(s.members())-1].name {
		job.Spec.ActiveDeadlineSeconds = ptr.To(int64(s.ActiveDeadline / time.Second))
	}
	if s.TTL > 0 {
		job.Spec.TTLSecondsAfterFinished = ptr.To(int32(s.TTL / time.Second))
	}
	if s.Shape == queuedJob {
		job.Labels["kueue.x-k8s.io/queue-name"] = "training"
		job.Spec.Suspend = ptr.To(true)
	}
	return job
}

// updateStrategy returns how a StatefulSet replaces its pods.
func (s Scenario) updateStrategy() appsv1.StatefulSetUpdateStrategy {
	if s.ReplacesOnDelete {
		return appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	}
	return appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
}

// backoffLimit returns the default of the API server, or a limit of the user, for which containers restart in their
// pods.
func (s Scenario) backoffLimit() int32 {
	if s.WithoutRules {
		return 6
	}
	return 1000
}

// ignoreDisruptions sets a podFailurePolicy, with the default of the API server for the replacement of pods.
func ignoreDisruptions(job *batchv1.Job) {
	job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		},
	}}}
}

// needSomeRanks sets a successPolicy with which a number of ranks completes the Job.
func needSomeRanks(job *batchv1.Job, count int32) {
	job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To(count)}}}
}

// annotateLifecycle sets annotations that depend on whether a field of the scenario is set.
func (s Scenario) annotateLifecycle(set func(key, value string)) {
	if s.WaitsForLostNodes {
		set(gang.AnnotationRestartOnNodeLoss, "false")
	}
	if s.AvoidsNodes {
		set(gang.AnnotationAvoidNodes, "auto")
	}
	if s.StartTimeout > 0 {
		set(gang.AnnotationStartTimeout, s.StartTimeout.String())
	}
	if s.ScheduleTimeout > 0 {
		set(gang.AnnotationScheduleTimeout, s.ScheduleTimeout.String())
	}
	set(gang.AnnotationMaxDisruptions, s.MaxDisruptions)
	set(gang.AnnotationCleanPodPolicy, s.CleanPodPolicy)
}

func (s Scenario) framework() string {
	if s.Shape == launcher {
		return "mpi"
	}
	return "pytorch"
}

// create creates a member after admission. The user repeats a request that fails.
func (s *simulation) create(m memberSpec) {
	o, err := s.admission.admitCreate(s.scenario.manifest(m))
	if err == nil {
		_, err = s.api.create(o)
	}
	if err != nil {
		s.record("user", "cannot create %s: %v", m.name, err)
		s.at(s.now.Add(10*time.Second), func() { s.create(m) })
		return
	}
	s.record("user", "creates %s", m.name)
}
