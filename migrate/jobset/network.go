package jobset

import (
	"k8s.io/utils/ptr"
)

// network carries how the pods find each other.
func (s *Set) network() {
	n := s.Spec.Get("network")
	if on := n.Get("enableDNSHostnames"); on.Exists() {
		if ptr.Deref(on.Bool(), true) {
			on.Carried("the ranks always have names")
		} else {
			on.Changed("the ranks always have names", "ranks find each other by name", "")
		}
	}
	if publish := n.Get("publishNotReadyAddresses"); publish.Exists() {
		if ptr.Deref(publish.Bool(), true) {
			publish.Carried("the gang's Service always publishes them")
		} else {
			publish.Changed("the gang's Service always publishes them", "ranks meet before they are ready", "")
		}
	}
	sub := n.Get("subdomain")
	roles := s.roles()
	switch v := sub.String(); {
	case v == "":
	case len(roles) == 1:
		for _, j := range s.members() {
			j.spec().Subdomain = v
		}
		sub.Carried("spec.template.spec.subdomain")
	case len(roles) > 1:
		sub.Changed("Service "+s.Blueprint.Name, "the workloads of a gang of several share the Service of its name", "")
	default:
		sub.Lost("there is no gang that has one", "")
	}
	for _, j := range s.Jobs {
		// The controller overwrites it (jobset_controller.go, constructJob).
		if j.spec().Subdomain != "" && j.spec().Subdomain != sub.String() {
			j.spec().Subdomain = ""
			j.pod().At("spec", "subdomain").Changed("", "left out: JobSet overwrote it", "")
		}
	}
}
