package check

import (
	"cmp"
	"context"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

const (
	// maxConcurrentReviews limits the concurrent questions about permissions.
	maxConcurrentReviews = 8
	// maxReviewedNamespaces limits the number of the namespaces in a list of the chart.
	maxReviewedNamespaces = 20
)

// review sets the answers to questions about permissions.
func review(
	ctx context.Context, answers []Answer, ask func(context.Context, *Answer) error, grant string,
) Observed[[]Answer] {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentReviews)
	for j := range answers {
		group.Go(func() error { return ask(ctx, &answers[j]) })
	}
	return observe(answers, group.Wait(), grant)
}

func (a *Answer) attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Permission.Verb, Group: a.Permission.Group, Resource: a.Permission.Resource,
		Subresource: a.Permission.Subresource, Name: a.Permission.Name,
	}
}

// readInstallPermissions asks whether the user may install the chart.
func (r Reader) readInstallPermissions(ctx context.Context, f Facts) Observed[[]Answer] {
	var answers []Answer
	add := func(namespace string, permissions ...Permission) {
		for _, p := range permissions {
			answers = append(answers, Answer{Permission: p, Namespace: namespace})
		}
	}
	cluster, namespaced := installPermissions()
	add("", cluster...)
	add("", escalate)
	if f.servesMutatingPolicies() {
		add("", newPermissions("admissionregistration.k8s.io", "mutatingadmissionpolicies", "get create patch delete", "")...)
	}
	add("", GangPermissions()...)
	add(cmp.Or(r.ReleaseNamespace, defaultReleaseNamespace), namespaced...)
	return review(ctx, answers, func(ctx context.Context, a *Answer) error {
		out, err := r.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a.attributes()},
			}, metav1.CreateOptions{})
		if err == nil {
			a.Allowed = out.Status.Allowed
		}
		return err
	}, "create selfsubjectaccessreviews.authorization.k8s.io")
}

// readControllerPermissions asks whether the controller has the permissions of the chart.
func (r Reader) readControllerPermissions(ctx context.Context, controller Component) Observed[[]Answer] {
	d := controller.Deployment.Value
	if d == nil {
		return Observed[[]Answer]{Err: controller.Deployment.Err, Grant: controller.Deployment.Grant}
	}
	namespaces := []string{metav1.NamespaceAll}
	if list, ok := controller.Flag("namespaces"); ok && list != "" {
		namespaces = strings.Split(list, ",")
	}
	var answers []Answer
	for _, namespace := range namespaces[:min(len(namespaces), maxReviewedNamespaces)] {
		for _, p := range GangPermissions() {
			answers = append(answers, Answer{Permission: p, Namespace: namespace})
		}
	}
	if lease, ok := controller.Flag("lease-name"); ok {
		for _, verb := range []string{"get", "update"} {
			answers = append(answers, Answer{Namespace: d.Namespace, Permission: Permission{
				Verb: verb, Group: coordinationv1.GroupName, Resource: "leases", Name: lease,
			}})
		}
	}
	if policy, ok := controller.Flag("policy-configmap"); ok {
		answers = append(answers, Answer{Namespace: d.Namespace, Permission: Permission{
			Verb: "watch", Resource: "configmaps", Name: policy,
		}})
	}
	account := d.Spec.Template.Spec.ServiceAccountName
	user := serviceaccount.UserInfo(d.Namespace, cmp.Or(account, "default"), "")
	return review(ctx, answers, func(ctx context.Context, a *Answer) error {
		out, err := r.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: a.attributes(), User: user.GetName(), Groups: user.GetGroups(),
			}}, metav1.CreateOptions{})
		if err == nil {
			a.Allowed = out.Status.Allowed
		}
		return err
	}, "create subjectaccessreviews.authorization.k8s.io")
}
