package bench

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var jobSetResource = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}

// createJobSet creates a JobSet with the name, the pods and the completion mode of a Job.
func (g *benchCluster) createJobSet(ctx context.Context, job *batchv1.Job) error {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&job.Spec)
	if err != nil {
		return fmt.Errorf("converting the Job %s: %w", job.Name, err)
	}
	jobSet := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": jobSetResource.GroupVersion().String(),
		"kind":       "JobSet",
		"metadata":   map[string]any{"name": job.Name, "namespace": job.Namespace},
		"spec": map[string]any{"replicatedJobs": []any{
			map[string]any{"name": "worker", "replicas": int64(1), "template": map[string]any{"spec": spec}},
		}},
	}}
	if _, err := g.dynamic.Resource(jobSetResource).Namespace(job.Namespace).
		Create(ctx, jobSet, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the JobSet %s: %w", job.Name, err)
	}
	return nil
}

// deleteJobSets deletes the JobSets of a namespace, if the cluster has JobSet.
func (g *benchCluster) deleteJobSets(ctx context.Context, namespace string, o metav1.DeleteOptions) error {
	err := g.dynamic.Resource(jobSetResource).Namespace(namespace).DeleteCollection(ctx, o, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the JobSets: %w", err)
	}
	return nil
}
