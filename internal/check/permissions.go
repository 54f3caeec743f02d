package check

import (
	"strings"

	"sigs.k8s.io/yaml"

	"rollcall.training/charts"
)

// Permission is a verb on a resource.
type Permission struct {
	Verb, Group, Resource, Subresource string
	// Namespace is empty for all namespaces, and Name for all objects.
	Namespace, Name string
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

// GangPermissions are the permissions of the controller in the namespaces of gangs. Those of a feature
// that a value of the chart drops have the field Dropped.
func GangPermissions() []Permission {
	var rules []struct {
		APIGroups, Resources, Verbs []string
		Value, Without              string
	}
	if err := yaml.UnmarshalStrict(charts.GangRules, &rules); err != nil {
		panic(err) // the file is part of the program
	}
	var out []Permission
	for _, rule := range rules {
		dropped := ""
		if rule.Value != "" {
			dropped = rule.Without + " (permissions." + rule.Value + ")"
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					out = append(out, Permission{
						Verb: verb, Group: group, Resource: resource, Subresource: subresource, Dropped: dropped,
					})
				}
			}
		}
	}
	return out
}

// Kinds of the chart in the namespace of the release and in the cluster, as resource.group.
const (
	namespacedResources = "deployments.apps services serviceaccounts configmaps secrets jobs.batch " +
		"poddisruptionbudgets.policy roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io"
	clusterResources = "clusterroles.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io " +
		"mutatingwebhookconfigurations.admissionregistration.k8s.io " +
		"validatingwebhookconfigurations.admissionregistration.k8s.io " +
		"validatingadmissionpolicies.admissionregistration.k8s.io " +
		"validatingadmissionpolicybindings.admissionregistration.k8s.io flowschemas.flowcontrol.apiserver.k8s.io"
	policyResources = "mutatingadmissionpolicies.admissionregistration.k8s.io " +
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io"
)

// newCreatePermissions returns the permissions to create objects. The resources are separated by spaces.
func newCreatePermissions(namespace, resources string) []Permission {
	var out []Permission
	for text := range strings.FieldsSeq(resources) {
		resource, group, _ := strings.Cut(text, ".")
		out = append(out, Permission{Verb: "create", Group: group, Resource: resource, Namespace: namespace})
	}
	return out
}

// escalate is the permission to grant permissions that the user does not have.
var escalate = Permission{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
