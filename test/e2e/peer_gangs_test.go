package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
func (g peerGang) newJobTemplate() batchv1.JobTemplateSpec {
	return batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		Parallelism: &g.ranks, Completions: &g.ranks, BackoffLimit: ptr.To[int32](0),
		CompletionMode: ptr.To(batchv1.IndexedCompletion),
		Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: peerLabels}, Spec: g.spec},
	}}
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
	r.createObject(t, g.ns, "jobset.x-k8s.io/v1alpha2", "JobSet", nil, map[string]any{
		"failurePolicy":  map[string]any{"maxRestarts": gang.DefaultMaxRestarts},
		"replicatedJobs": []any{map[string]any{"name": "worker", "replicas": 1, "template": g.newJobTemplate()}},
	})
}

// createTrainJob creates a TrainJob with a runtime like torch-distributed. Without its failure policy, the TrainJob
// would fail with the first rank.
func (r *peerRun) createTrainJob(t *testing.T, g peerGang) {
	t.Helper()
	g.spec.Containers[0].Name = "node"
	g.spec.Containers[0].Command = []string{"torchrun", "train.py"}
	template := g.newJobTemplate()
	template.Labels = map[string]string{"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
	const version = "trainer.kubeflow.org/v1alpha1"
	framework := map[string]string{"trainer.kubeflow.org/framework": "torch"}
	r.createObject(t, g.ns, version, "TrainingRuntime", framework, map[string]any{
		"mlPolicy": map[string]any{"numNodes": g.ranks, "torch": map[string]any{}},
		"template": map[string]any{"spec": map[string]any{
			"failurePolicy":  map[string]any{"maxRestarts": gang.DefaultMaxRestarts},
			"replicatedJobs": []any{map[string]any{"name": "node", "template": template}},
		}},
	})
	r.createObject(t, g.ns, version, "TrainJob", nil, map[string]any{
		"runtimeRef": map[string]any{"name": "train", "kind": "TrainingRuntime"},
		"trainer":    map[string]any{"numNodes": g.ranks, "numProcPerNode": 1},
	})
}

// createObject creates an object named train.
func (r *peerRun) createObject(
	t *testing.T, ns, version, kind string, labels map[string]string, spec map[string]any,
) {
	t.Helper()
	object, err := json.Marshal(map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": "train", "labels": labels}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.KubectlWithInput(t.Context(), string(object), "--namespace", ns, "create", "--filename", "-")
	if err != nil {
		t.Fatal(err)
	}
}

func (r *peerRun) countJobSetRestarts(ctx context.Context, ns string) (int64, error) {
	out, err := r.Kubectl(ctx, "--namespace", ns, "get", "jobset", "train", "--output", "jsonpath={.status.restarts}")
	if err != nil || out == "" {
		return 0, err
	}
	return strconv.ParseInt(out, 10, 32)
}
