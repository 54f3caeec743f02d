package vet

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// gangService returns the Service of the input with the name of the Service of the gang, and why it
// cannot be used. It returns nil if the input contains none.
func (in *input) gangService(w *labeledWorkload) (o *inputObject, mismatch string) {
	o = in.findObject("Service", w.namespace, w.gang.ServiceName)
	if o == nil || w.denial != nil {
		return nil, ""
	}
	var service corev1.Service
	if o.APIVersion != "v1" || o.Decode(&service) != nil {
		return nil, ""
	}
	return o, gang.ServiceMismatch(&service, w.withServerLabels(), w.gang.PublishedRanks)
}

// withServerLabels returns the admitted workload with the labels that the API server adds to the
// pod template of each Job (pkg/registry/batch/job/strategy.go of Kubernetes).
func (w *labeledWorkload) withServerLabels() gang.Workload {
	if w.admitted.Job == nil || w.isCronJob { // A CronJob adds a time to the name.
		return w.admitted
	}
	defaulted := w.admitted.DeepCopy()
	template := defaulted.Template()
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	for _, name := range []string{batchv1.JobNameLabel, "job-name"} {
		if _, ok := template.Labels[name]; !ok {
			template.Labels[name] = w.target.Name
		}
	}
	return defaulted
}

func checkServiceConflict(r *reporter, w *labeledWorkload) {
	o, mismatch := r.gangService(w)
	if mismatch == "" {
		return
	}
	r.add("metadata.name",
		"remove the Service, because Rollcall creates it, or rename the gang with the label "+gang.LabelGang,
		"the Service %s (%s, line %d) has the name of the Service of the gang, but %s",
		o.Name, o.Document.Source, o.Line("metadata.name"), mismatch)
}

func checkServiceNotNeeded(r *reporter, w *labeledWorkload) {
	o, mismatch := r.gangService(w)
	if o == nil || mismatch != "" || !r.isFirstMember(w) {
		return
	}
	if _, isPrintedByInject := o.Labels[gang.LabelGang]; isPrintedByInject {
		return
	}
	r.add("metadata.name", "remove the Service, unless you also use it without Rollcall",
		"the Service %s (%s, line %d) is not needed, because Rollcall creates one for each gang",
		o.Name, o.Document.Source, o.Line("metadata.name"))
}
