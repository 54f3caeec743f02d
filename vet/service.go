package vet

import (
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

func ofServices() []Check {
	return []Check{{
		Code: CodeServiceConflict, Severity: Error, gang: serviceConflict,
		Title: "A Service in the input has the name of the gang's, and cannot serve",
		Why:   "The ranks find each other by the names that a headless Service gives to their pods. Rollcall leaves a Service alone that it did not make: one with a cluster IP, or with another selector, keeps the gang from starting (Event " + string(gang.ReasonServiceConflict) + ").",
		Fix:   "Take the Service away, since Rollcall makes it; or rename it; or name the gang differently with the label `" + gang.LabelGang + "`.",
	}}
}

func serviceConflict(in *input, m *member) []remark {
	s := in.find("Service", m.namespace, m.gang.Service)
	if s == nil || m.denial != nil {
		return nil
	}
	var service corev1.Service
	if s.APIVersion != "v1" || s.Decode(&service) != nil {
		return nil
	}
	why := gang.Unfit(&service, m.admitted)
	if why == "" {
		return nil
	}
	return say("metadata.name", "the Service %s (%s, line %d) has the name of the gang's Service, and %s", s.Name, s.Document.Source, s.Line("metadata.name"), why).
		do("take the Service away, since Rollcall makes it; or rename it; or name the gang differently with the label %s", gang.LabelGang)
}
