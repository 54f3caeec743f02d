// Package cluster reads the workloads of a [rollcall.training/internal/roster] from a cluster. The controller has them
// in its caches. The commands, the checks and the end of the management request them.
package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
)

// ListWorkloads returns the Jobs and StatefulSets with the framework label in a namespace. An empty
// namespace means all namespaces.
func ListWorkloads(ctx context.Context, client kubernetes.Interface, namespace string) ([]gang.Workload, error) {
	labeled := metav1.ListOptions{LabelSelector: gang.LabelFramework}
	jobs, err := client.BatchV1().Jobs(namespace).List(ctx, labeled)
	if err != nil {
		return nil, fmt.Errorf("listing Jobs: %w", err)
	}
	statefulSets, err := client.AppsV1().StatefulSets(namespace).List(ctx, labeled)
	if err != nil {
		return nil, fmt.Errorf("listing StatefulSets: %w", err)
	}
	var workloads []gang.Workload
	for i := range jobs.Items {
		workloads = append(workloads, gang.Workload{Job: &jobs.Items[i]})
	}
	for i := range statefulSets.Items {
		workloads = append(workloads, gang.Workload{StatefulSet: &statefulSets.Items[i]})
	}
	return workloads, nil
}

// GetWorkload returns a Job or a StatefulSet of a namespace, with or without the framework label. The error of one that
// does not exist is NotFound.
func GetWorkload(
	ctx context.Context, client kubernetes.Interface, kind gang.Kind, namespace, name string,
) (w gang.Workload, err error) {
	if kind == gang.Job {
		w.Job, err = client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	} else {
		w.StatefulSet, err = client.AppsV1().StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return gang.Workload{}, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	return w, nil
}
