package vet

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

func serviceChecks() []Check {
	return []Check{{
		Code: CodeServiceNotNeeded, Severity: Info, checkGang: checkServiceNotNeeded,
		Title: "The input contains the headless Service of a gang",
		Why: "Rollcall creates the headless Service of each gang. It uses an existing Service that selects the pods. " +
			"It then does not delete the Service with the gang, and does not correct its fields. " +
			"Without `publishNotReadyAddresses: true`, the addresses resolve only when the pods are ready.",
		Fix: "Remove the Service, unless you also use it without Rollcall.",
	}, {
		Code: CodeServiceConflict, Severity: Error, checkGang: checkServiceConflict,
		Title: "A Service in the input conflicts with the Service of a gang",
		Why: "The ranks find each other by the DNS names that a headless Service gives to their pods. " +
			"Rollcall does not change a Service that it did not create. " +
			"A Service with a cluster IP or with a different selector prevents the gang from starting (Event " +
			string(gang.ReasonServiceConflict) + ").",
		Fix: "Remove the Service, because Rollcall creates it. Or rename the Service. " +
			"Or rename the gang with the label `" + gang.LabelGang + "`.",
	}}
}

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

func checkServiceConflict(in *input, w *labeledWorkload) []issue {
	o, mismatch := in.gangService(w)
	if mismatch == "" {
		return nil
	}
	return []issue{{
		field: "metadata.name",
		message: fmt.Sprintf("the Service %s (%s, line %d) has the name of the Service of the gang, but %s",
			o.Name, o.Document.Source, o.Line("metadata.name"), mismatch),
		fix: "remove the Service, because Rollcall creates it, or rename the gang with the label " + gang.LabelGang,
	}}
}

func checkServiceNotNeeded(in *input, w *labeledWorkload) []issue {
	o, mismatch := in.gangService(w)
	if o == nil || mismatch != "" || !in.isFirstMember(w) {
		return nil
	}
	if _, isPrintedByInject := o.Labels[gang.LabelGang]; isPrintedByInject {
		return nil
	}
	return []issue{{
		field: "metadata.name",
		message: fmt.Sprintf("the Service %s (%s, line %d) is not needed, because Rollcall creates one for each gang",
			o.Name, o.Document.Source, o.Line("metadata.name")),
		fix: "remove the Service, unless you also use it without Rollcall",
	}}
}
