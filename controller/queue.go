package controller

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/gang"
)

// kueue is what Kueue keeps of a workload in its queues. Where it is not served, there is
// no Kueue, and a queue that a Job names lets nobody go.
var kueue = schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"}

// queued reports whether a workload is let go by a queue. A Job that Kueue has admitted
// is let go at once, one that it has taken its room from stays suspended: Rollcall, which
// cannot know, takes back what it did and leaves the rest to Kueue. To look whether there
// is a Kueue may cost a request, which only a Job that Rollcall holds back is worth.
func (r *Reconciler) queued(w gang.Workload) bool {
	if w.Queue() == "" || !gang.StatusOf(w).Stopped {
		return w.Queue() != ""
	}
	_, err := r.Client.RESTMapper().RESTMapping(kueue)
	return err == nil
}
