package gang

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxLinuxHostnameLength is HOST_NAME_MAX of Linux. It limits pods with setHostnameAsFQDN, whose
// hostname is their complete DNS name.
const maxLinuxHostnameLength = 64

// MaxStatefulSetNameLength is the maximum length of the name of a StatefulSet with pods. The pod
// label controller-revision-hash is the name, a dash and a hash of up to 10 characters, and a label
// value has at most 63 characters (kubernetes pkg/controller/history, ControllerRevisionName). The
// API server accepts longer names, but then no pod can be created.
const MaxStatefulSetNameLength = 63 - 1 - 10

var templateSpecPath = field.NewPath("spec", "template", "spec")

// parseName returns the name of the gang. It is the name of a Service, hence a DNS-1035 label. A
// workload of a multi-workload gang is named after the gang and its role.
func (p *parser) parseName(role string, multiWorkload bool) string {
	if p.meta.Name == "" {
		p.errs = append(p.errs, field.Required(namePath,
			"the address of every rank is derived from the name; set metadata.name instead of metadata.generateName"))
		if name := p.workload.SuggestedName(); name != "" {
			p.setFix(NewSetFix(namePath, name))
		}
		return ""
	}
	name, path := p.meta.Name, namePath
	fix := "rename the workload, or set the name of the gang with the label " + LabelGang
	if multiWorkload {
		name, fix = strings.TrimSuffix(name, "-"+role), "rename the workload"
	}
	if label, ok := p.meta.Labels[LabelGang]; ok {
		name, path, fix = label, labelsPath.Key(LabelGang), "choose another value"
	}
	if want := MemberName(name, role); multiWorkload && p.meta.Name != want {
		p.addInvalid(namePath, p.meta.Name, fmt.Sprintf(
			"must be %q, the name of the gang and the role, so that the other workloads can derive its address; "+
				"rename the workload", want))
	}
	if msgs := validation.IsDNS1035Label(name); len(msgs) > 0 {
		p.addInvalid(path, name, fmt.Sprintf(
			"is not a valid name for the gang's Service: %s; %s", strings.Join(msgs, "; "), fix))
	}
	return name
}

// SuggestedName returns a name for a workload that has only a generateName; empty for others.
func (w Workload) SuggestedName() string {
	if w.Meta().Name != "" {
		return ""
	}
	return strings.TrimRight(w.Meta().GenerateName, "-.")
}

// parseServiceName returns the name of the headless Service. The default is the name of the gang. A
// single workload can use another Service: a StatefulSet by serviceName, which becomes the subdomain
// of its pods, and a Job by subdomain. Without both fields, it is the Service in an address of the
// workload's first pod, such as MASTER_ADDR=train-0.train-svc. The workloads of a multi-workload gang
// cannot, because each of them must derive the name of the Service from its own metadata.
func (p *parser) parseServiceName(gang string, multiWorkload bool) string {
	service, path := p.workload.Template().Spec.Subdomain, templateSpecPath.Child("subdomain")
	if set := p.workload.StatefulSet; set != nil && set.Spec.ServiceName != "" {
		service, path = set.Spec.ServiceName, field.NewPath("spec", "serviceName")
	}
	if multiWorkload && service != "" && service != gang {
		p.addInvalid(path, service, fmt.Sprintf(
			"must be %q: all workloads of the gang share the Service with the gang's name; remove the field", gang))
		p.setFix(NewRemoveFix(path))
	}
	if service == "" && !multiWorkload && gang != "" {
		service = findServiceInAddress(p.workload)
	}
	return cmp.Or(service, gang)
}

// checkDerivedNames checks the names that are derived from the name of the workload, for the highest
// index. Otherwise pods would fail only when they are created.
func (p *parser) checkDerivedNames(g Gang) {
	longest := ""
	for _, m := range g.Members {
		p.checkHostname(namePath, g, m)
		if fqdn := g.PodFQDN(m, g.SizeBounds(m).Max-1); len(fqdn) > len(longest) {
			longest = fqdn
		}
	}
	if g.Kind == StatefulSet && len(g.WorkloadName) > MaxStatefulSetNameLength {
		p.addInvalid(namePath, g.WorkloadName, fmt.Sprintf(
			"has %d characters; the maximum for a StatefulSet is %d, because its pods have a label with the name and a hash; "+
				"shorten the name by %d",
			len(g.WorkloadName), MaxStatefulSetNameLength, len(g.WorkloadName)-MaxStatefulSetNameLength))
	}
	if len(longest) > validation.DNS1123SubdomainMaxLength {
		p.addInvalid(namePath, g.WorkloadName, fmt.Sprintf(
			"the longest address %q has %d characters, the maximum is %d; "+
				"shorten the name of the workload, the gang or the namespace",
			longest, len(longest), validation.DNS1123SubdomainMaxLength))
	}
	asFQDN := p.workload.Template().Spec.SetHostnameAsFQDN
	if asFQDN != nil && *asFQDN && len(longest) > maxLinuxHostnameLength {
		p.addInvalid(templateSpecPath.Child("setHostnameAsFQDN"), true, fmt.Sprintf(
			"the longest hostname %q has %d characters, the maximum on Linux is %d; "+
				"remove the field, or shorten the names",
			longest, len(longest), maxLinuxHostnameLength))
	}
}

// checkHostname checks the hostname of the last pod of a member. It applies to all members: if the
// pods of one cannot be created, the gang never starts.
func (p *parser) checkHostname(path *field.Path, g Gang, m Member) {
	host := fmt.Sprintf("%s-%d", m.WorkloadName, g.SizeBounds(m).Max-1)
	if len(host) > validation.DNS1123LabelMaxLength {
		p.addInvalid(path, g.WorkloadName, fmt.Sprintf(
			"the hostname %q of the last rank has %d characters, the maximum is %d; shorten the name by %d",
			host, len(host), validation.DNS1123LabelMaxLength, len(host)-validation.DNS1123LabelMaxLength))
	} else if msgs := validation.IsDNS1123Label(host); len(msgs) > 0 {
		p.addInvalid(path, g.WorkloadName, fmt.Sprintf(
			"the hostname %q of the last rank is not a DNS label: %s; rename the workload",
			host, strings.Join(msgs, "; ")))
	}
}

// checkNetwork checks the settings of pods that affect the resolution of the ranks' names.
func (p *parser) checkNetwork() {
	spec := &p.workload.Template().Spec
	if spec.Hostname != "" {
		p.addInvalid(templateSpecPath.Child("hostname"), spec.Hostname,
			"every rank has its own hostname, made of the workload's name and the index; remove the field")
		p.setFix(NewRemoveFix(templateSpecPath.Child("hostname")))
	}
	if set := p.workload.StatefulSet; set != nil && set.Spec.ServiceName != "" &&
		spec.Subdomain != "" && spec.Subdomain != set.Spec.ServiceName {
		p.addInvalid(templateSpecPath.Child("subdomain"), spec.Subdomain, fmt.Sprintf(
			"must equal spec.serviceName (%q), which the StatefulSet controller sets on pods; remove the field",
			set.Spec.ServiceName))
		p.setFix(NewRemoveFix(templateSpecPath.Child("subdomain")))
	}
	const cannotResolve = "pods cannot resolve cluster DNS names with this policy; set "
	if spec.HostNetwork && spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		p.addWarning(templateSpecPath.Child("dnsPolicy"), cannotResolve+string(corev1.DNSClusterFirstWithHostNet))
	}
	if !spec.HostNetwork && spec.DNSPolicy == corev1.DNSDefault {
		p.addWarning(templateSpecPath.Child("dnsPolicy"), cannotResolve+string(corev1.DNSClusterFirst))
	}
}
