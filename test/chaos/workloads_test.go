package chaos

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// The names of the workloads of a gang.
const (
	singleName = "train"
	masterName = "train-master"
	workerName = "train-worker"
)

// newWorkloads returns the workloads of a life, whose pods have the spec.
func newWorkloads(l life, pod corev1.PodSpec) []gang.Workload {
	switch l.Kind {
	case oneStatefulSet:
		return []gang.Workload{{StatefulSet: newStatefulSet(l, pod)}}
	case twoJobs:
		roles := fmt.Sprintf("master=1,worker=%d", l.Ranks-1)
		return []gang.Workload{
			{Job: newMember(l, masterName, "master", 1, roles, pod)},
			{Job: newMember(l, workerName, "worker", l.Ranks-1, roles, pod)},
		}
	default:
		return []gang.Workload{{Job: newJob(l, singleName, l.Ranks, pod)}}
	}
}

// checkName is the name of the init container that checks the node.
const checkName = "check"

// progressFile is the file that a program writes while it makes progress.
const progressFile = "/tmp/progress"

func newMetadata(l life, name string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{gang.LabelFramework: "pytorch"},
		Annotations: map[string]string{
			gang.AnnotationMaxRestarts:   strconv.Itoa(int(l.MaxRestarts)),
			gang.AnnotationSuccessPolicy: "all",
		},
	}
	if l.has(programHang) {
		m.Annotations[gang.AnnotationProgressFile] = progressFile
		m.Annotations[gang.AnnotationStallTimeout] = "30s"
		m.Annotations[gang.AnnotationStallAction] = string(gang.StallRestart)
	}
	if l.has(preflightFailure) {
		m.Annotations[gang.AnnotationPreflight] = checkName
	}
	return m
}

func newJob(l life, name string, ranks int32, pod corev1.PodSpec) *batchv1.Job {
	pod.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: newMetadata(l, name),
		Spec: batchv1.JobSpec{
			Parallelism: &ranks, Completions: &ranks, Template: corev1.PodTemplateSpec{Spec: pod},
		},
	}
	if l.RestartsInPlace { // Rollcall adds restart rules for a limit of the user
		job.Spec.BackoffLimit = ptr.To[int32](1000)
	}
	return job
}

func newMember(l life, name, role string, ranks int32, roles string, pod corev1.PodSpec) *batchv1.Job {
	job := newJob(l, name, ranks, pod)
	job.Labels[gang.LabelRole], job.Annotations[gang.AnnotationRoles] = role, roles
	return job
}

func newStatefulSet(l life, pod corev1.PodSpec) *appsv1.StatefulSet {
	labels := map[string]string{"app": singleName}
	return &appsv1.StatefulSet{
		ObjectMeta: newMetadata(l, singleName),
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(l.Ranks), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}
