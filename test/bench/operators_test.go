package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/test/cluster"
)

// gangKind is the kind of a gang of another operator.
type gangKind struct {
	resource schema.GroupVersionResource
	kind     string
	// buildSpec returns the spec of a gang with the pods of a Job.
	buildSpec func(*batchv1.Job) (map[string]any, error)
}

var gangKinds = map[variant]gangKind{
	variantJobSet: {
		resource: schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
		kind:     "JobSet", buildSpec: buildJobSetSpec,
	},
	variantTrainer: {
		resource: schema.GroupVersionResource{
			Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs",
		},
		kind: "TrainJob", buildSpec: buildTrainJobSpec,
	},
	variantMPI: {
		resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v2beta1", Resource: "mpijobs"},
		kind:     "MPIJob", buildSpec: buildMPIJobSpec,
	},
}

// operator is an operator of gangs.
type operator struct {
	// program is the name of its process, with which its user agent begins.
	program string
	// variants are the variants that need it.
	variants []variant
	start    func(*cluster.Cluster, context.Context) error
}

// otherOperators are the operators other than Rollcall, in the order in which they start.
var otherOperators = []operator{
	{"jobset", []variant{variantJobSet, variantTrainer}, (*cluster.Cluster).StartJobSet},
	{"trainer", []variant{variantTrainer}, (*cluster.Cluster).StartTrainer},
	{"mpi-operator", []variant{variantMPI}, (*cluster.Cluster).StartMPIOperator},
}

// startOperators starts the operators that the variants need.
func startOperators(t *testing.T, c *cluster.Cluster, variants []variant) {
	t.Helper()
	for _, o := range otherOperators {
		if !slices.ContainsFunc(variants, o.isNeededBy) {
			continue
		}
		if err := o.start(c, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (o operator) isNeededBy(v variant) bool { return slices.Contains(o.variants, v) }

// createGang creates a gang of another operator with the name and the pods of a Job.
func (g *benchCluster) createGang(ctx context.Context, kind gangKind, job *batchv1.Job) error {
	spec, err := kind.buildSpec(job)
	if err != nil {
		return fmt.Errorf("building the %s %s: %w", kind.kind, job.Name, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.resource.GroupVersion().String(),
		"kind":       kind.kind,
		"metadata":   map[string]any{"name": job.Name, "namespace": job.Namespace},
		"spec":       spec,
	}}
	if _, err := g.dynamic.Resource(kind.resource).Namespace(job.Namespace).
		Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the %s %s: %w", kind.kind, job.Name, err)
	}
	return nil
}

// buildJobSetSpec returns the spec of a JobSet with one Job.
func buildJobSetSpec(job *batchv1.Job) (map[string]any, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&job.Spec)
	return map[string]any{"replicatedJobs": []any{
		map[string]any{"name": "worker", "replicas": int64(1), "template": map[string]any{"spec": spec}},
	}}, err
}

// buildTrainJobSpec returns the spec of a TrainJob that runs the container of the Job with the
// ClusterTrainingRuntime that cluster.StartTrainer creates.
func buildTrainJobSpec(job *batchv1.Job) (map[string]any, error) {
	container := job.Spec.Template.Spec.Containers[0]
	var command []any
	for _, argument := range container.Command {
		command = append(command, argument)
	}
	return map[string]any{
		"runtimeRef": map[string]any{"name": "torch-distributed"},
		"trainer": map[string]any{
			"numNodes": int64(*job.Spec.Parallelism), "image": container.Image, "command": command,
		},
	}, nil
}

// buildMPIJobSpec returns the spec of an MPIJob with the pods of the Job as workers, and a launcher.
func buildMPIJobSpec(job *batchv1.Job) (map[string]any, error) {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&job.Spec.Template)
	if err != nil {
		return nil, err
	}
	replicas := func(count int64) map[string]any {
		return map[string]any{"replicas": count, "template": runtime.DeepCopyJSON(template)}
	}
	return map[string]any{"mpiReplicaSpecs": map[string]any{
		"Launcher": replicas(1), "Worker": replicas(int64(*job.Spec.Parallelism)),
	}}, nil
}

// isLauncher reports whether the pod is the launcher of an MPIJob, which is not a rank.
func isLauncher(p *corev1.Pod) bool {
	return p.Labels["training.kubeflow.org/job-role"] == "launcher"
}

// deleteOtherGangs deletes the gangs of all other operators that the cluster has.
func (g *benchCluster) deleteOtherGangs(ctx context.Context, namespace string, o metav1.DeleteOptions) error {
	// The owners first: Trainer creates the JobSet of a TrainJob again.
	for _, v := range []variant{variantTrainer, variantMPI, variantJobSet} {
		kind := gangKinds[v]
		err := g.dynamic.Resource(kind.resource).Namespace(namespace).DeleteCollection(ctx, o, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting each %s: %w", kind.kind, err)
		}
	}
	return nil
}
