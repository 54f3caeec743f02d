package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
	"rollcall.training/internal/kueue"
	"rollcall.training/internal/lifecycle"
)

// kueueWorkloadKind is the kind of the objects in the queues of Kueue. If the API server does not
// serve the kind, Kueue is not installed, and nothing resumes a Job that names a queue.
var kueueWorkloadKind = kueue.Version.WithKind(kueue.Kind).GroupKind()

// isManagedByQueue reports whether a queue resumes a workload. Kueue resumes an admitted Job
// immediately and leaves an evicted Job suspended. Rollcall does not know which case applies, so it
// leaves the decision to Kueue. The lookup of the kind may cost a request, so it is made only for Jobs
// that Rollcall suspended.
//
// An API that cannot be discovered may exist. The error is temporary, because Rollcall would otherwise
// resume the Job without quota.
func (r *Reconciler) isManagedByQueue(w gang.Workload) (bool, error) {
	if w.QueueName() == "" || !lifecycle.ReadStatus(w).SuspendedByRollcall {
		return w.QueueName() != "", nil
	}
	return r.servesKind(kueueWorkloadKind)
}

// servesKind reports whether the API server serves one of the versions of a kind, or any version without an argument.
func (r *Reconciler) servesKind(kind schema.GroupKind, versions ...string) (bool, error) {
	_, err := r.Client.RESTMapper().RESTMapping(kind, versions...)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("discovering %s: %w", kind, err)
	}
	return err == nil, nil
}
