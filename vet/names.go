package vet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
)

func ofNames() []Check {
	return []Check{{
		Code: CodeNameNearLimit, Severity: Advice, gang: nameNearLimit,
		Title: "A name is near its limit",
		Why:   "The names of pods and addresses are made of the workload's, and end at 63 characters (253 for a complete address, 52 for a StatefulSet). What is admitted now is refused once a prefix, an environment's name or another digit of the rank is added.",
		Fix:   "Shorten the name while nobody refers to it, or give the gang a short one with the label `" + gang.LabelGang + "`.",
	}}
}

// nearLimit is how many characters are few: enough for a dash and what people append,
// such as -dev.
const nearLimit = 5

func nameNearLimit(_ *input, m *member) []remark {
	own, _ := m.pods()
	host := fmt.Sprintf("%s-%d", m.gang.Workload, own-1)
	derived := []struct {
		what, name, field string
		limit             int
	}{
		{"the hostname of the last rank", host, "metadata.name", validation.DNS1123LabelMaxLength},
		{"its address", host + "." + m.gang.Subdomain(), "metadata.name", validation.DNS1123SubdomainMaxLength},
		{"the name of the gang and its Service", m.gang.Service, "metadata.name", validation.DNS1035LabelMaxLength},
	}
	if m.written.StatefulSet != nil {
		derived[0].what, derived[0].name, derived[0].limit = "the name of the StatefulSet", m.gang.Workload, gang.MaxStatefulSetName
	}
	if _, ok := m.read.Labels[gang.LabelGang]; ok {
		derived[2].field = "metadata.labels[" + gang.LabelGang + "]"
	}
	var out []remark
	for _, d := range derived {
		if left := d.limit - len(d.name); left >= 0 && left < nearLimit {
			out = append(out, say(d.field, "%s, %s, has %d of %d characters: %d left", d.what, d.name, len(d.name), d.limit, left).do("shorten it")...)
		}
		if len(out) > 0 {
			break // the others are of the same name
		}
	}
	return out
}
