package gang

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// linuxHostNameMax is HOST_NAME_MAX of Linux, which bounds a pod whose hostname
// is its complete name (setHostnameAsFQDN).
const linuxHostNameMax = 64

// MaxStatefulSetName leaves room for the dash and up to 10 characters of hash in the
// pod label controller-revision-hash, a label value of at most 63 characters
// (kubernetes pkg/controller/history, ControllerRevisionName). The API server takes
// a longer name, and then no pod can be created.
const MaxStatefulSetName = 63 - 1 - 10

var templateSpecPath = field.NewPath("spec", "template", "spec")

// service is the name of the headless Service: the user's own when the workload
// names one, else the gang's. A StatefulSet names its Service in serviceName and
// gives its pods that subdomain by itself.
//
// The workloads of a gang of several share one, which each has to know without
// seeing the others: the gang's.
func (p *parser) service(gang string, several bool) string {
	service, path := p.workload.Template().Spec.Subdomain, templateSpecPath.Child("subdomain")
	if set := p.workload.StatefulSet; set != nil && set.Spec.ServiceName != "" {
		service, path = set.Spec.ServiceName, field.NewPath("spec", "serviceName")
	}
	if several && service != "" && service != gang {
		p.invalid(path, service, fmt.Sprintf("must be %q: the workloads of a gang of several share the Service of its name; remove the field", gang))
	}
	return cmp.Or(service, gang)
}

// derivedNames checks every name that will be derived from the workload's, at the
// highest index, before anything exists that would carry it.
func (p *parser) derivedNames(g Gang) {
	namePath := field.NewPath("metadata", "name")
	fqdn := ""
	for _, m := range g.Members {
		p.hostname(namePath, g, m)
		if last := g.HostOf(m, g.most(m)-1); len(last) > len(fqdn) {
			fqdn = last
		}
	}
	if g.Kind == StatefulSet && len(g.Workload) > MaxStatefulSetName {
		p.invalid(namePath, g.Workload, fmt.Sprintf(
			"has %d characters; a StatefulSet's limit is %d, so that its pods can be labelled with its name and a revision; shorten the name by %d",
			len(g.Workload), MaxStatefulSetName, len(g.Workload)-MaxStatefulSetName))
	}
	if len(fqdn) > validation.DNS1123SubdomainMaxLength {
		p.invalid(namePath, g.Workload, fmt.Sprintf(
			"the longest address %q has %d characters, the limit is %d; shorten the name, the gang's or the namespace's",
			fqdn, len(fqdn), validation.DNS1123SubdomainMaxLength))
	}
	if asFQDN := p.workload.Template().Spec.SetHostnameAsFQDN; asFQDN != nil && *asFQDN && len(fqdn) > linuxHostNameMax {
		p.invalid(templateSpecPath.Child("setHostnameAsFQDN"), true, fmt.Sprintf(
			"the longest hostname would be %q with %d characters, the limit of Linux is %d; remove the field or shorten the names",
			fqdn, len(fqdn), linuxHostNameMax))
	}
}

// hostname checks the last pod of a member: this workload's own, and those of the
// others too, since none of them could ever join.
func (p *parser) hostname(path *field.Path, g Gang, m Member) {
	host := fmt.Sprintf("%s-%d", m.Workload, g.most(m)-1)
	if len(host) > validation.DNS1123LabelMaxLength {
		p.invalid(path, g.Workload, fmt.Sprintf(
			"the last rank's hostname %q has %d characters, the limit is %d; shorten the name by %d",
			host, len(host), validation.DNS1123LabelMaxLength, len(host)-validation.DNS1123LabelMaxLength))
	} else if msgs := validation.IsDNS1123Label(host); len(msgs) > 0 {
		p.invalid(path, g.Workload, fmt.Sprintf(
			"the last rank's hostname %q is not a DNS label: %s; rename the workload", host, strings.Join(msgs, "; ")))
	}
}

// most is the largest number of pods that a member can have.
func (g Gang) most(m Member) int32 {
	if g.Elastic != nil && m.Role == g.Framework.Elastic {
		return g.Elastic.Max
	}
	return m.Size
}

// network checks the pod settings on which the ranks' names depend.
func (p *parser) network() {
	spec := &p.workload.Template().Spec
	if spec.Hostname != "" {
		p.invalid(templateSpecPath.Child("hostname"), spec.Hostname,
			"every rank has a hostname of its own, made of the workload's name and its index; remove the field")
	}
	if set := p.workload.StatefulSet; set != nil && spec.Subdomain != "" && spec.Subdomain != cmp.Or(set.Spec.ServiceName, spec.Subdomain) {
		p.invalid(templateSpecPath.Child("subdomain"), spec.Subdomain, fmt.Sprintf(
			"must equal spec.serviceName (%q), which the StatefulSet controller gives its pods; remove the field", set.Spec.ServiceName))
	}
	if spec.HostNetwork && spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		p.warn(templateSpecPath.Child("dnsPolicy"),
			"pods on the host's network resolve no cluster names with this policy; set ClusterFirstWithHostNet")
	}
	if !spec.HostNetwork && spec.DNSPolicy == corev1.DNSDefault {
		p.warn(templateSpecPath.Child("dnsPolicy"), "the node's resolver knows no cluster names, by which ranks meet; set ClusterFirst")
	}
}
