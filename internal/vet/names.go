package vet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
)

func nameChecks() []Check {
	return []Check{{
		Code: CodeNameNearLimit, Severity: Info, checkGang: checkNameNearLimit,
		Title: "A name is close to its length limit",
		Why: "The names and addresses of the pods are derived from the name of the workload. " +
			"A hostname can have 63 characters, a complete address 253, and the name of a StatefulSet 52. " +
			"A prefix, an environment suffix or another digit of the rank can exceed a limit. " +
			"The webhook then rejects the workload.",
		Fix: "Shorten the name before other objects refer to it, or set a short name of the gang with the label `" +
			gang.LabelGang + "`.",
	}}
}

// nameLimitMargin is the number of free characters below which a name is close to its limit. It has
// room for a common suffix such as -prod.
const nameLimitMargin = 5

func checkNameNearLimit(_ *input, w *labeledWorkload) []issue {
	ownPods, _ := w.maxPods()
	lastHostname := fmt.Sprintf("%s-%d", w.gang.WorkloadName, ownPods-1)
	derivedNames := []struct {
		description, name, field string
		limit                    int
	}{
		{
			description: "hostname of the last rank", name: lastHostname,
			field: "metadata.name", limit: validation.DNS1123LabelMaxLength,
		},
		{
			description: "address of the last rank", name: lastHostname + "." + w.gang.ServiceFQDN(),
			field: "metadata.name", limit: validation.DNS1123SubdomainMaxLength,
		},
		{
			description: "name of the gang and its Service", name: w.gang.ServiceName,
			field: "metadata.name", limit: validation.DNS1035LabelMaxLength,
		},
	}
	if w.workload.StatefulSet != nil {
		derivedNames[0].description = "name of the StatefulSet"
		derivedNames[0].name, derivedNames[0].limit = w.gang.WorkloadName, gang.MaxStatefulSetNameLength
	}
	if _, ok := w.target.Labels[gang.LabelGang]; ok {
		derivedNames[2].field = "metadata.labels[" + gang.LabelGang + "]"
	}
	for _, d := range derivedNames {
		// The webhook rejects longer names. The first finding is enough, because the names overlap.
		if free := d.limit - len(d.name); free >= 0 && free < nameLimitMargin {
			return []issue{{
				field: d.field,
				message: fmt.Sprintf("the %s, %s, has %d of at most %d characters, so a longer one may be rejected",
					d.description, d.name, len(d.name), d.limit),
				fix: "shorten it",
			}}
		}
	}
	return nil
}
