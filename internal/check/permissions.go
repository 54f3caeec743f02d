package check

import (
	"strings"
)

// Permission is a verb on a resource.
type Permission struct {
	Verb, Group, Resource, Subresource string
	// Name is the name of the object, or empty for all objects.
	Name string
	// Dropped describes what does not work without the permission. It is empty if Rollcall needs it.
	Dropped string
}

// String returns the permission in the form "patch jobs.batch/status".
func (p Permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Subresource != "" {
		text += "/" + p.Subresource
	}
	return text
}

// newPermissions returns a permission for each verb. The verbs are separated by spaces. The resource can
// have a subresource after a slash.
func newPermissions(group, resource, verbs, dropped string) []Permission {
	var out []Permission
	resource, subresource, _ := strings.Cut(resource, "/")
	for _, verb := range strings.Fields(verbs) {
		out = append(out, Permission{
			Verb: verb, Group: group, Resource: resource, Subresource: subresource, Dropped: dropped,
		})
	}
	return out
}

// GangPermissions are the permissions of the controller in the namespaces of gangs. Those of a feature
// that a value of the chart drops have the field Dropped.
func GangPermissions() []Permission {
	var out []Permission
	for _, p := range []struct{ group, resource, verbs, dropped string }{
		{"batch", "jobs", "get list watch patch", ""},
		{"batch", "jobs/status", "patch", ""},
		{"apps", "statefulsets", "get list watch patch", ""},
		{"apps", "statefulsets/status", "patch", ""},
		{"batch", "jobs/finalizers", "update", ""},
		{"apps", "statefulsets/finalizers", "update", ""},
		{"", "services", "get list watch create patch delete", ""},
		{"", "secrets", "create", "users create the Secrets with ssh keys (permissions.createKeyPairs)"},
		{"", "pods", "get list watch", ""},
		{"", "pods", "deletecollection", "clean-pod-policy: all keeps pods that have exited (permissions.deletePods)"},
		{"", "pods/status", "patch", "a Job can complete while its ranks are drained (permissions.untrackPods)"},
		{"", "events", "create patch", ""},
		{"events.k8s.io", "events", "create patch", ""},
	} {
		out = append(out, newPermissions(p.group, p.resource, p.verbs, p.dropped)...)
	}
	return out
}

// installPermissions are the permissions of a user who installs the chart. The first list is for the
// cluster, and the second for the namespace of the release.
func installPermissions() (cluster, namespaced []Permission) {
	for _, p := range []struct{ group, resource string }{
		{"rbac.authorization.k8s.io", "clusterroles"},
		{"rbac.authorization.k8s.io", "clusterrolebindings"},
		{"admissionregistration.k8s.io", "mutatingwebhookconfigurations"},
		{"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicybindings"},
		{"flowcontrol.apiserver.k8s.io", "flowschemas"},
	} {
		cluster = append(cluster, newPermissions(p.group, p.resource, "get create patch delete", "")...)
	}
	for _, p := range []struct{ group, resource string }{
		{"apps", "deployments"},
		{"", "services"},
		{"", "serviceaccounts"},
		{"", "configmaps"},
		{"", "secrets"},
		{"batch", "jobs"},
		{"policy", "poddisruptionbudgets"},
		{"rbac.authorization.k8s.io", "roles"},
		{"rbac.authorization.k8s.io", "rolebindings"},
	} {
		namespaced = append(namespaced, newPermissions(p.group, p.resource, "get create patch delete", "")...)
	}
	return cluster, namespaced
}

// escalate is the permission to grant permissions that the user does not have.
var escalate = Permission{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
