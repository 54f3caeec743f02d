package vet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
)

// nameLimitMargin is the number of free characters below which a name is close to its limit. It has
// room for a common suffix such as -prod.
const nameLimitMargin = 5

func checkNameNearLimit(r *reporter, w *labeledWorkload) {
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
			r.add(d.field, "shorten it",
				"the %s, %s, has %d of at most %d characters, so a longer one may be rejected",
				d.description, d.name, len(d.name), d.limit)
			return
		}
	}
}
