package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
)

// isManagedNamespace reports whether the manager reconciles the gangs of a namespace. The selector is
// that of the webhooks. A namespace that the webhooks do not cover must not contain gangs: its users
// could otherwise make the manager create objects there by labels that no admission has checked.
//
// A namespace that the cache does not contain yet is not managed. Its event causes the passes later.
func (r *Reconciler) isManagedNamespace(ctx context.Context, name string) (bool, error) {
	switch {
	case r.Namespaces == nil:
		return true, nil
	case !r.readsNamespaces():
		return r.Namespaces.Matches(labels.Set{corev1.LabelMetadataName: name}), nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the namespace %s: %w", name, err)
	}
	return r.Namespaces.Matches(labels.Set(namespace.Labels)), nil
}

// readsNamespaces reports whether the selector needs the labels of namespaces. The label
// kubernetes.io/metadata.name is always the name, so a selector of names needs no permission to read
// namespaces.
func (r *Reconciler) readsNamespaces() bool {
	if r.Namespaces == nil {
		return false
	}
	requirements, _ := r.Namespaces.Requirements()
	return slices.ContainsFunc(requirements, func(requirement labels.Requirement) bool {
		return requirement.Key() != corev1.LabelMetadataName
	})
}

// requestsForNamespace returns the gangs of a namespace whose labels changed. It returns nil for a
// namespace that is not managed.
func (r *Reconciler) requestsForNamespace(ctx context.Context, o client.Object) []Request {
	if r.Namespaces != nil && !r.Namespaces.Matches(labels.Set(o.GetLabels())) {
		return nil
	}
	workloads, err := r.listMatchingWorkloads(ctx, client.InNamespace(o.GetName()))
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the gangs of a namespace")
	}
	return r.requestsForWorkloads(ctx, workloads)
}

// requestsForWorkloads returns the gangs that are affected by an event of each workload, without
// duplicates.
func (r *Reconciler) requestsForWorkloads(ctx context.Context, workloads []gang.Workload) []Request {
	var out []Request
	seen := map[Request]bool{}
	for _, w := range workloads {
		for _, req := range r.requestsForWorkload(ctx, w.Object().(client.Object)) {
			if !seen[req] {
				seen[req] = true
				out = append(out, req)
			}
		}
	}
	return out
}
