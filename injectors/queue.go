package injectors

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/injection"
)

// isMovedToQueue reports whether the label of a new Job with its queue is replaced by the annotation of the gang. If
// each Job of a gang waited separately, two gangs could wait for each other's quota.
func (e *Engine) isMovedToQueue(w gang.Workload) bool {
	_, isSet := w.Meta().Annotations[gang.AnnotationQueue]
	return w.QueueName() != "" && w.HasSeveralRoles() && !w.IsManagedExternally() && (isSet || e.config.QueueGangs)
}

// moveQueueName replaces the label of Kueue in a new Job by the annotation.
func (e *Engine) moveQueueName(w gang.Workload) {
	if !e.isMovedToQueue(w) {
		return
	}
	if annotations := &w.Meta().Annotations; (*annotations)[gang.AnnotationQueue] == "" {
		injection.SetKey(annotations, gang.AnnotationQueue, w.QueueName())
	}
	delete(w.Meta().Labels, gang.LabelQueueName)
}

// suspendForQueue suspends a new Job of a gang that waits in a queue. The reconciler suspends a StatefulSet when it
// exists: policies of the cluster that limit its replicas must see them at admission.
func suspendForQueue(w gang.Workload, g gang.Gang) {
	if g.Queue != "" && w.Job != nil {
		w.Job.Spec.Suspend = ptr.To(true)
	}
}

// warnQueueName returns a warning about a label that is replaced, and about a StatefulSet with the label, for which
// Kueue has another meaning.
func (e *Engine) warnQueueName(w gang.Workload) gang.Warnings {
	path := fieldpath.Labels.Key(gang.LabelQueueName)
	switch {
	case e.isMovedToQueue(w):
		return gang.Warnings{gang.NewWarning(path, "replaced by the annotation "+gang.AnnotationQueue+
			", because the workloads of the gang wait in the queue as one")}
	case w.StatefulSet != nil && e.config.QueueGangs && w.Meta().Labels[gang.LabelQueueName] != "" && w.HasSeveralRoles():
		return gang.Warnings{gang.NewWarning(path, "Kueue admits the pods of the StatefulSet separately from the gang; "+
			"replace the label by the annotation "+gang.AnnotationQueue)}
	}
	return nil
}

// checkQueue returns a denial for a queue that Rollcall cannot use in this cluster.
func (e *Engine) checkQueue(g gang.Gang) (gang.Warnings, gang.Denials) {
	if g.Queue == "" {
		return nil, nil
	}
	path := fieldpath.Annotations.Key(gang.AnnotationQueue)
	if e.queueFacts == nil {
		return gang.Warnings{gang.NewWarning(path, "only the cluster knows whether it has Kueue")}, nil
	}
	if problem := e.queueFacts(); problem != "" {
		return nil, gang.Denials{{Error: field.Invalid(path, g.Queue, problem)}}
	}
	return nil, nil
}
