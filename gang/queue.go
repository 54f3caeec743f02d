package gang

import (
	"k8s.io/apimachinery/pkg/util/validation"
)

// parseQueue parses the queue of a gang of several workloads. A workload that another controller runs is in no queue.
func (p *parser) parseQueue() string {
	queue, isSet := p.meta.Annotations[AnnotationQueue]
	if !isSet || p.workload.IsManagedExternally() {
		return ""
	}
	path := annotationsPath.Key(AnnotationQueue)
	for _, message := range validation.IsDNS1123Subdomain(queue) {
		p.addInvalid(path, queue, message)
	}
	if !p.workload.HasSeveralRoles() {
		p.addInvalid(path, queue, "the annotation is for gangs of several workloads; "+
			"remove the annotation, and name the queue of a Job with the label "+LabelQueueName)
	}
	return queue
}
