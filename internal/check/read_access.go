package check

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/yaml"

	"rollcall.training/charts"
)

const (
	// maxConcurrentReviews limits the concurrent questions about permissions.
	maxConcurrentReviews = 8
	// maxReviewedNamespaces limits the number of the namespaces in a list of the chart.
	maxReviewedNamespaces = 20
)

// findDenied returns the permissions that are not granted.
func findDenied(
	ctx context.Context, permissions []Permission,
	isAllowed func(context.Context, *authorizationv1.ResourceAttributes) (bool, error),
) ([]Permission, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentReviews)
	allowed := make([]bool, len(permissions))
	for j, p := range permissions {
		group.Go(func() (err error) {
			allowed[j], err = isAllowed(ctx, &authorizationv1.ResourceAttributes{
				Namespace: p.Namespace, Verb: p.Verb, Group: p.Group, Resource: p.Resource, Subresource: p.Subresource,
				Name: p.Name,
			})
			return err
		})
	}
	err := group.Wait()
	var denied []Permission
	for j, p := range permissions {
		if !allowed[j] {
			denied = append(denied, p)
		}
	}
	return denied, err
}

// readMissingPermissions asks which permissions the user does not have to install the chart.
func (r Reader) readMissingPermissions(ctx context.Context, f Facts) Observed[[]string] {
	isAllowed := func(ctx context.Context, attributes *authorizationv1.ResourceAttributes) (bool, error) {
		out, err := r.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
			}, metav1.CreateOptions{})
		return err == nil && out.Status.Allowed, err
	}
	resources := clusterResources
	if f.ServesPolicies.Value {
		resources += " " + policyResources
	}
	permissions := append(newCreatePermissions("", resources), escalate)
	namespace := cmp.Or(r.ReleaseNamespace, defaultReleaseNamespace)
	permissions = append(permissions, newCreatePermissions(namespace, namespacedResources)...)
	denied, err := findDenied(ctx, permissions, isAllowed)
	if j := slices.Index(denied, escalate); j >= 0 && err == nil {
		// Without escalate, a user can only grant permissions that he has.
		var ungrantable []Permission
		ungrantable, err = findDenied(ctx, GangPermissions(), isAllowed)
		denied = append(slices.Delete(denied, j, j+1), ungrantable...)
	}
	var missing []string
	for _, p := range denied {
		missing = append(missing, p.String())
	}
	return observe(missing, err)
}

// readControllerPermissions asks whether the controller has the permissions of the chart.
func (r Reader) readControllerPermissions(ctx context.Context, controller Component) Observed[*Permissions] {
	d := controller.Value
	if d == nil {
		return Observed[*Permissions]{Err: controller.Err}
	}
	namespaces := []string{metav1.NamespaceAll}
	if list, ok := controller.Flag("namespaces"); ok && list != "" {
		namespaces = strings.Split(list, ",")
	}
	var permissions []Permission
	for _, namespace := range namespaces[:min(len(namespaces), maxReviewedNamespaces)] {
		for _, p := range GangPermissions() {
			p.Namespace = namespace
			permissions = append(permissions, p)
		}
	}
	add := func(verb, group, resource, nameFlag string) {
		if name, ok := controller.Flag(nameFlag); ok {
			permissions = append(permissions, Permission{
				Verb: verb, Group: group, Resource: resource, Namespace: d.Namespace, Name: name,
			})
		}
	}
	add("get", coordinationv1.GroupName, "leases", "lease-name")
	add("update", coordinationv1.GroupName, "leases", "lease-name")
	add("watch", "", "configmaps", "policy-configmap")
	user := serviceaccount.UserInfo(d.Namespace, cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default"), "")
	denied, err := findDenied(ctx, permissions,
		func(ctx context.Context, attributes *authorizationv1.ResourceAttributes) (bool, error) {
			out, err := r.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
				&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					ResourceAttributes: attributes, User: user.GetName(), Groups: user.GetGroups(),
				}}, metav1.CreateOptions{})
			return err == nil && out.Status.Allowed, err
		})
	p := &Permissions{}
	for _, d := range denied {
		switch {
		case d.Dropped == "" && d.Namespace != "":
			p.Missing = append(p.Missing, d.String()+" in "+d.Namespace)
		case d.Dropped == "":
			p.Missing = append(p.Missing, d.String())
		case !slices.Contains(p.Dropped, d.Dropped):
			p.Dropped = append(p.Dropped, d.Dropped)
		}
	}
	return observe(p, err)
}

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
