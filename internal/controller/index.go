package controller

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
)

// The indexes of the cache.
const (
	// indexGang finds workloads by the name of their gang.
	indexGang = "rollcall.gang"
	// indexMultiWorkload finds the workloads with roles by the name of their gang. Only members of
	// multi-workload gangs have roles.
	indexMultiWorkload = "rollcall.gang.multi-workload"
	// indexPodOwner finds pods by the UID of their workload.
	indexPodOwner = "rollcall.pod-owner"
)

// RegisterIndexes registers the indexes of the cache, so that the members of a gang and the pods of a member are
// found without a search through all objects.
func (r *Reconciler) RegisterIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexPodOwner, podOwnerKeys); err != nil {
		return fmt.Errorf("indexing pods by their owner: %w", err)
	}
	for name, extract := range r.workloadIndexes() {
		for _, o := range []client.Object{&batchv1.Job{}, &appsv1.StatefulSet{}} {
			if err := indexer.IndexField(ctx, o, name, extract); err != nil {
				return fmt.Errorf("indexing %T by %s: %w", o, name, err)
			}
		}
	}
	return nil
}

// workloadIndexes returns the functions that extract the keys of workloads, by the name of the index.
func (r *Reconciler) workloadIndexes() map[string]client.IndexerFunc {
	gangNameIf := func(isIndexed func(gang.Workload) bool) client.IndexerFunc {
		return func(o client.Object) []string {
			if w, err := gang.WorkloadOf(o); err == nil && isIndexed(w) {
				return []string{gang.ResolveName(w, r.Engine.Frameworks())}
			}
			return nil
		}
	}
	return map[string]client.IndexerFunc{
		indexGang:          gangNameIf(func(gang.Workload) bool { return true }),
		indexMultiWorkload: gangNameIf(gang.Workload.HasRoles),
	}
}

// podOwnerKeys returns the keys of a pod in [indexPodOwner].
func podOwnerKeys(o client.Object) []string {
	if c := metav1.GetControllerOf(o); c != nil {
		return []string{string(c.UID)}
	}
	return nil
}

// listWorkloads lists the workloads with the name of a gang in an index of the cache. The caller must not change them.
func (r *Reconciler) listWorkloads(ctx context.Context, index, namespace, name string) ([]gang.Workload, error) {
	return r.listMatchingWorkloads(ctx, client.InNamespace(namespace), client.MatchingFields{index: name})
}

// listMatchingWorkloads lists workloads of the cache without copies. The caller must not change them: anybody can
// create many workloads with the name of a gang, and the copies would need as much memory as the cache.
func (r *Reconciler) listMatchingWorkloads(ctx context.Context, options ...client.ListOption) ([]gang.Workload, error) {
	options = append(options, client.UnsafeDisableDeepCopy)
	var jobs batchv1.JobList
	var sets appsv1.StatefulSetList
	var out []gang.Workload
	if err := r.Client.List(ctx, &jobs, options...); err != nil {
		return nil, fmt.Errorf("listing Jobs: %w", err)
	}
	for i := range jobs.Items {
		out = append(out, gang.Workload{Job: &jobs.Items[i]})
	}
	if err := r.Client.List(ctx, &sets, options...); err != nil {
		return nil, fmt.Errorf("listing StatefulSets: %w", err)
	}
	for i := range sets.Items {
		out = append(out, gang.Workload{StatefulSet: &sets.Items[i]})
	}
	return out, nil
}

// listPods lists the pods of a workload in the cache. They have the fields of [trimPod].
func (r *Reconciler) listPods(ctx context.Context, namespace string, owner types.UID) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingFields{indexPodOwner: string(owner)})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of a gang: %w", err)
	}
	return pods.Items, nil
}

// hasMultiWorkloadGang reports whether a multi-workload gang of the name exists.
func (r *Reconciler) hasMultiWorkloadGang(ctx context.Context, namespace, name string) bool {
	workloads, err := r.listWorkloads(ctx, indexMultiWorkload, namespace, name)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the members of a gang")
	}
	return len(workloads) > 0
}

// isInMultiWorkloadGang reports whether a workload is reconciled as a member of a multi-workload gang.
func (r *Reconciler) isInMultiWorkloadGang(ctx context.Context, w gang.Workload) bool {
	if w.HasRoles() {
		return true
	}
	frameworks := r.Engine.Frameworks()
	return gang.IsMultiWorkloadMember(w, frameworks) &&
		r.hasMultiWorkloadGang(ctx, w.Meta().Namespace, gang.ResolveName(w, frameworks))
}

// RequestsFor returns the gangs that are affected by an event of an object of the cache: a workload, a
// pod, a namespace, or a Service that was deleted.
func (r *Reconciler) RequestsFor(ctx context.Context, o client.Object) []Request {
	switch o.(type) {
	case *batchv1.Job, *appsv1.StatefulSet:
		return r.requestsForWorkload(ctx, o)
	case *corev1.Service:
		return r.requestsForService(ctx, o)
	case *metav1.PartialObjectMetadata:
		return r.requestsForNamespace(ctx, o)
	default: // a pod, which the cache keeps in another form
		return r.requestsForPod(ctx, o)
	}
}

// requestsForWorkload returns the gangs that are affected by an event of a workload: its own gang, and
// the multi-workload gang of which it may be a misconfigured member according to its name.
func (r *Reconciler) requestsForWorkload(ctx context.Context, o client.Object) []Request {
	w, err := gang.WorkloadOf(o)
	if err != nil {
		return nil // other kinds are not watched
	}
	frameworks := r.Engine.Frameworks()
	namespace, name := o.GetNamespace(), gang.ResolveName(w, frameworks)
	own := Request{Namespace: namespace, Kind: w.Kind(), Name: o.GetName()}
	if r.isInMultiWorkloadGang(ctx, w) {
		own = Request{Namespace: namespace, Gang: name}
	}
	out := []Request{own}
	derived := gang.DeriveName(w, frameworks)
	if derived != "" && derived != name && r.hasMultiWorkloadGang(ctx, namespace, derived) {
		out = append(out, Request{Namespace: namespace, Gang: derived})
	}
	return out
}

// requestsForService returns the gangs that are affected by the deletion of their Service.
func (r *Reconciler) requestsForService(ctx context.Context, o client.Object) []Request {
	r.sessions.forgetService(client.ObjectKeyFromObject(o))
	workloads, err := r.listWorkloads(ctx, indexGang, o.GetNamespace(), o.GetLabels()[gang.LabelGang])
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the gang of a Service")
	}
	return r.requestsForWorkloads(ctx, workloads)
}

// requestsForPod returns the gang that is affected by an event of a pod.
func (r *Reconciler) requestsForPod(ctx context.Context, o client.Object) []Request {
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != string(gang.Job) && owner.Kind != string(gang.StatefulSet) {
		return nil
	}
	namespace, name := o.GetNamespace(), o.GetLabels()[gang.LabelGang]
	singleWorkload := Request{Namespace: namespace, Kind: gang.Kind(owner.Kind), Name: owner.Name}
	if !r.hasMultiWorkloadGang(ctx, namespace, name) || r.isInOtherGang(ctx, singleWorkload) {
		return []Request{singleWorkload}
	}
	return []Request{{Namespace: namespace, Gang: name}}
}

// isInOtherGang reports whether the workload of a request exists and is not in a multi-workload gang.
// Its gang can have the same name as a multi-workload gang.
func (r *Reconciler) isInOtherGang(ctx context.Context, req Request) bool {
	w, ok := gang.NewWorkload(req.Kind)
	if !ok {
		return false
	}
	key := client.ObjectKey{Namespace: req.Namespace, Name: req.Name}
	err := r.Client.Get(ctx, key, w.Object().(client.Object))
	return err == nil && !r.isInMultiWorkloadGang(ctx, w)
}

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
