package inspect

import (
	"fmt"
	"maps"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
)

// newEngine returns the engine of a webhook with default configuration.
func newEngine() *injectors.Engine {
	return injectors.NewEngine(injectors.Builtin(), gang.Config{})
}

// newReader returns a Reader of the namespace team.
func newReader(client kubernetes.Interface) Reader {
	return Reader{Client: client, Engine: newEngine(), Namespace: "team"}
}

// newAdmittedJob returns a Job after admission. The options change it before admission.
func newAdmittedJob(t *testing.T, name, framework string, size int32, options ...func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			Namespace:         "team",
			UID:               types.UID("uid-" + name),
			CreationTimestamp: timeAfter(0),
			Labels:            map[string]string{gang.LabelFramework: framework},
			Annotations:       map[string]string{},
		},
		Spec: batchv1.JobSpec{
			Parallelism: &size,
			Completions: &size,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "sidecar"}, {Name: "trainer"}},
			}},
		},
	}
	for _, option := range options {
		option(job)
	}
	if _, err := newEngine().Admit(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	return job
}

// withRole makes a Job the member of a gang with several members. The name of the Job becomes the
// name of the gang.
func withRole(role, roles string) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Labels[gang.LabelRole], job.Annotations[gang.AnnotationRoles] = role, roles
		job.Name += "-" + role
		job.UID = types.UID("uid-" + job.Name)
	}
}

// setStatus sets the label and the annotation that the controller writes.
func setStatus(t *testing.T, job *batchv1.Job, status lifecycle.Status) *batchv1.Job {
	t.Helper()
	text, err := status.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationStatus], job.Labels[gang.LabelPhase] = text, string(status.Phase)
	return job
}

// newPod returns a pod as the Job controller creates it.
func newPod(job *batchv1.Job, index int, status corev1.PodStatus) *corev1.Pod {
	labels := map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index)}
	maps.Copy(labels, job.Spec.Template.Labels)
	name := fmt.Sprintf("%s-%d", job.Name, index)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			Namespace:         job.Namespace,
			UID:               types.UID(name),
			Labels:            labels,
			CreationTimestamp: timeAfter(0),
			OwnerReferences: []metav1.OwnerReference{
				{Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)},
			},
		},
		Status: status,
	}
}

var (
	readyStatus  = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: readyConditions}
	failedStatus = corev1.PodStatus{
		Phase:             corev1.PodFailed,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer", State: terminatedState(3, "Error")}},
	}
)

// gangSummary holds the fields of a Gang that the tests compare.
type gangSummary struct {
	Name         string
	Phase        lifecycle.Phase
	Restarts     string
	Disruptions  string // empty without a disruption
	ReadyCount   string
	Members      []string
	Cells        string
	FirstFailure string
	Warnings     int
}

func summarizeGang(g Gang) gangSummary {
	summary := gangSummary{
		Name:       g.Name,
		Phase:      g.Phase,
		Restarts:   g.formatRestarts(),
		ReadyCount: formatReadyCount(g.Ready, g.Succeeded, g.Size),
		Warnings:   len(g.Warnings),
	}
	if g.Disruptions > 0 {
		summary.Disruptions = g.formatDisruptions()
	}
	for _, m := range g.Members {
		summary.Members = append(summary.Members, fmt.Sprintf("%s %s %s", m.Kind, m.Name, m.formatRanks()))
	}
	for _, rank := range g.Ranks {
		summary.Cells += stateSymbols[rank.State].cell
	}
	if g.FirstFailure != nil {
		summary.FirstFailure = g.FirstFailure.String()
	}
	return summary
}
