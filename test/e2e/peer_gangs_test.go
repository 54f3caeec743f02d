package e2e

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// peer is a system that runs a gang, or Rollcall with certain settings.
type peer struct {
	name string
	// create creates a gang named train.
	create func(r *peerRun, t *testing.T, g peerGang)
	// countAttempts returns the attempts after the first one.
	countAttempts func(r *peerRun, ctx context.Context, ns string) (int64, error)
}

// peerGang is a gang of a peer: a number of pods with a label and a spec.
type peerGang struct {
	ns    string
	ranks int32
	spec  corev1.PodSpec
}

// peerLabels are the labels of the pods of all gangs.
var peerLabels = map[string]string{"app": "train"}

func setPeerLabels(job *batchv1.Job) { job.Spec.Template.Labels = peerLabels }

var (
	jobSets  = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	trainers = schema.GroupVersion{Group: "trainer.kubeflow.org", Version: "v1alpha1"}
)

var peers = []peer{
	{"Rollcall, with settings", (*peerRun).createConfiguredGang, (*peerRun).countGangAttempts},
	{"Rollcall, without", (*peerRun).createPlainGang, (*peerRun).countGangAttempts},
	{"JobSet", (*peerRun).createJobSet, (*peerRun).countJobSetRestarts},
	{"Kubeflow Trainer", (*peerRun).createTrainJob, (*peerRun).countJobSetRestarts},
}

// createConfiguredGang creates a gang with the settings of docs/tasks/when-training-hangs.md and check-nodes.md.
func (r *peerRun) createConfiguredGang(t *testing.T, g peerGang) {
	t.Helper()
	annotations := map[string]string{
		gang.AnnotationProgressFile: "/tmp/progress", gang.AnnotationStallTimeout: "30s",
		gang.AnnotationStallAction: string(gang.StallRestart),
	}
	if len(g.spec.InitContainers) > 0 {
		annotations[gang.AnnotationPreflight] = g.spec.InitContainers[0].Name
	}
	r.createJob(t, g.ns, "train", g.ranks, annotations, g.spec, setPeerLabels)
}

// createPlainGang creates a gang without settings that waits for lost nodes as Kubernetes does by default.
func (r *peerRun) createPlainGang(t *testing.T, g peerGang) {
	t.Helper()
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		g.spec.Tolerations = append(g.spec.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](300),
		})
	}
	annotations := map[string]string{gang.AnnotationRestartOnNodeLoss: "false"}
	r.createJob(t, g.ns, "train", g.ranks, annotations, g.spec, setPeerLabels)
}

func (r *peerRun) countGangAttempts(ctx context.Context, ns string) (int64, error) {
	status, err := r.readGangStatus(ctx, ns, "train")
	return int64(status.Restarts + status.Disruptions), err
}

// newJobTemplate returns the template of a Job for JobSet and Trainer.
func (g peerGang) newJobTemplate(t *testing.T) map[string]any {
	t.Helper()
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&batchv1.JobSpec{
		Parallelism: &g.ranks, Completions: &g.ranks, BackoffLimit: ptr.To[int32](0),
		CompletionMode: ptr.To(batchv1.IndexedCompletion),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: peerLabels}, Spec: g.spec,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"spec": spec}
}

// createJobSet creates a JobSet that restarts as often as a gang, with the variables that its users write.
func (r *peerRun) createJobSet(t *testing.T, g peerGang) {
	t.Helper()
	index := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		FieldPath: "metadata.annotations['" + batchv1.JobCompletionIndexAnnotation + "']"}}
	c := &g.spec.Containers[0]
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "MASTER_ADDR", Value: "train-worker-0-0.train"},
		corev1.EnvVar{Name: "MASTER_PORT", Value: "29500"},
		corev1.EnvVar{Name: "WORLD_SIZE", Value: fmt.Sprint(g.ranks)}, corev1.EnvVar{Name: "RANK", ValueFrom: index})
	r.createObject(t, jobSets, "JobSet", g.ns, map[string]any{
		"failurePolicy":  map[string]any{"maxRestarts": int64(gang.DefaultMaxRestarts)},
		"replicatedJobs": []any{map[string]any{"name": "worker", "replicas": int64(1), "template": g.newJobTemplate(t)}},
	})
}

// createTrainJob creates a TrainJob with a runtime like torch-distributed. Without its failure policy, the TrainJob
// would fail with the first rank.
func (r *peerRun) createTrainJob(t *testing.T, g peerGang) {
	t.Helper()
	g.spec.Containers[0].Name = "node"
	g.spec.Containers[0].Command = []string{"torchrun", "train.py"}
	template := g.newJobTemplate(t)
	template["metadata"] = map[string]any{
		"labels": map[string]any{"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
	runtimes := trainers.WithResource("trainingruntimes")
	r.createObject(t, runtimes, "TrainingRuntime", g.ns, map[string]any{
		"mlPolicy": map[string]any{"numNodes": int64(g.ranks), "torch": map[string]any{}},
		"template": map[string]any{"spec": map[string]any{
			"failurePolicy":  map[string]any{"maxRestarts": int64(gang.DefaultMaxRestarts)},
			"replicatedJobs": []any{map[string]any{"name": "node", "template": template}},
		}},
	})
	r.createObject(t, trainers.WithResource("trainjobs"), "TrainJob", g.ns, map[string]any{
		"runtimeRef": map[string]any{"name": "train", "kind": "TrainingRuntime"},
		"trainer":    map[string]any{"numNodes": int64(g.ranks), "numProcPerNode": int64(1)},
	})
}

// createObject creates an object named train.
func (r *peerRun) createObject(
	t *testing.T, resource schema.GroupVersionResource, kind, ns string, spec map[string]any,
) {
	t.Helper()
	client, err := dynamic.NewForConfig(r.Config())
	if err != nil {
		t.Fatal(err)
	}
	metadata := map[string]any{"name": "train"}
	if kind == "TrainingRuntime" {
		metadata["labels"] = map[string]any{"trainer.kubeflow.org/framework": "torch"}
	}
	_, err = client.Resource(resource).Namespace(ns).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": metadata, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating the %s: %v", kind, err)
	}
}

func (r *peerRun) countJobSetRestarts(ctx context.Context, ns string) (int64, error) {
	client, err := dynamic.NewForConfig(r.Config())
	if err != nil {
		return 0, err
	}
	object, err := client.Resource(jobSets).Namespace(ns).Get(ctx, "train", metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	restarts, _, err := unstructured.NestedInt64(object.Object, "status", "restarts")
	return restarts, err
}
