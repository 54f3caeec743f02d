package gang

// LabelQueue names the queue of a workload for Kueue, which suspends it and lets it go
// (kueue pkg/controller/constants). It is the only one of Kueue's keys that matters here.
const LabelQueue = "kueue.x-k8s.io/queue-name"

// Queue is the queue that a Job waits in; empty when it names none. The members of a
// gang that are StatefulSets are queued pod by pod, which is nothing that holds the
// workload back.
func (w Workload) Queue() string {
	if w.Job == nil {
		return ""
	}
	return w.Job.Labels[LabelQueue]
}
