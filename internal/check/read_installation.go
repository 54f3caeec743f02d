package check

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Names of the components: the containers, and the labels of the Deployments.
const (
	webhookComponent    = "webhook"
	controllerComponent = "controller"
)

// listDeployments returns the Deployments of all releases.
func (r Reader) listDeployments(ctx context.Context) Observed[[]appsv1.Deployment] {
	list, err := r.Client.AppsV1().Deployments(r.ReleaseNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s in (%s,%s)", labelComponent, webhookComponent, controllerComponent),
	})
	if err != nil {
		return Observed[[]appsv1.Deployment]{Err: err}
	}
	isForeign := func(d appsv1.Deployment) bool { return !isOfChart(&d) }
	return Observed[[]appsv1.Deployment]{Value: slices.DeleteFunc(list.Items, isForeign)}
}

// listReleases returns the releases of Deployments, sorted by name.
func listReleases(deployments []appsv1.Deployment) []Release {
	var releases []Release
	for _, d := range deployments {
		release := Release{Name: d.Labels[labelInstance], Namespace: d.Namespace}
		if !slices.Contains(releases, release) {
			releases = append(releases, release)
		}
	}
	slices.SortFunc(releases, func(a, b Release) int { return strings.Compare(a.String(), b.String()) })
	return releases
}

// readInstallation observes the only release, or as much as possible if the releases could not be read.
func (r Reader) readInstallation(ctx context.Context, f Facts, deployments Observed[[]appsv1.Deployment]) Installation {
	var i Installation
	if f.Releases.Err == nil {
		i.Release = f.Releases.Value[0]
	}
	i.Webhook = i.findComponent(webhookComponent, deployments)
	i.Controller = i.findComponent(controllerComponent, deployments)
	r.readConfigurations(ctx, &i)
	if client := i.findClient(); client != nil && client.Service != nil {
		r.readService(ctx, &i, *client.Service)
	}
	i.Secret = r.readSecret(ctx, &i)
	i.Permissions = r.readControllerPermissions(ctx, i.Controller)
	i.Policy = r.readPolicy(ctx, &i)
	r.readLease(ctx, &i)
	i.Admission = r.tryAdmission(ctx, &i)
	return i
}

// findComponent returns a component of the release.
func (i *Installation) findComponent(name string, deployments Observed[[]appsv1.Deployment]) Component {
	c := Component{Name: name}
	c.Err = deployments.Err
	for j, d := range deployments.Value {
		release := Release{Name: d.Labels[labelInstance], Namespace: d.Namespace}
		if d.Labels[labelComponent] == name && release == i.Release {
			c.Value = &deployments.Value[j]
		}
	}
	return c
}

// readConfigurations sets the webhook configurations of the release.
func (r Reader) readConfigurations(ctx context.Context, i *Installation) {
	isOwn := func(o metav1.Object) bool {
		return isOfChart(o) && (i.Name == "" || o.GetLabels()[labelInstance] == i.Name)
	}
	api, options := r.Client.AdmissionregistrationV1(), metav1.ListOptions{LabelSelector: labelInstance}
	mutating, err := api.MutatingWebhookConfigurations().List(ctx, options)
	if i.Mutating.Err = err; err == nil {
		for _, c := range mutating.Items {
			if isOwn(&c) {
				i.Mutating.Value = &c
			}
		}
	}
	validating, err := api.ValidatingWebhookConfigurations().List(ctx, options)
	if i.Validating.Err = err; err == nil {
		for _, c := range validating.Items {
			if isOwn(&c) {
				i.Validating.Value = &c
			}
		}
	}
}

// readService sets the Service of the webhooks and its endpoints.
func (r Reader) readService(ctx context.Context, i *Installation, ref admissionv1.ServiceReference) {
	service, err := r.Client.CoreV1().Services(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	i.Service = observe(service, err)
	list, err := r.Client.DiscoveryV1().EndpointSlices(ref.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + ref.Name,
	})
	ready := 0
	if err == nil {
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if ptr.Deref(e.Conditions.Ready, true) {
					ready++
				}
			}
		}
	}
	i.ReadyEndpoints = observe(ready, err)
}

// readSecret returns the certificates of the Secret of the webhook.
func (r Reader) readSecret(ctx context.Context, i *Installation) Observed[[]*x509.Certificate] {
	name, found := i.Webhook.Flag("secret-name")
	if !i.managesCertificates() && i.Webhook.Value != nil {
		for _, volume := range i.Webhook.Value.Spec.Template.Spec.Volumes {
			if volume.Name == "certificate" && volume.Secret != nil {
				name, found = volume.Secret.SecretName, true
			}
		}
	}
	if !found {
		return Observed[[]*x509.Certificate]{Err: i.Webhook.Err}
	}
	secret, err := r.Client.CoreV1().Secrets(i.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return observe([]*x509.Certificate(nil), err)
	}
	return observe(parseCertificates(secret.Data[corev1.TLSCertKey]), nil)
}

// readPolicy returns the policy for gangs. It is nil if the controller has none.
func (r Reader) readPolicy(ctx context.Context, i *Installation) Observed[*PolicyFacts] {
	name, reader := r.newPolicyReader(i.Controller)
	if name == "" {
		return Observed[*PolicyFacts]{}
	}
	m, err := r.Client.CoreV1().ConfigMaps(i.Namespace).Get(ctx, name, metav1.GetOptions{})
	found := observe(m, err)
	if found.Err != nil {
		return Observed[*PolicyFacts]{Err: found.Err}
	}
	p, _, err := reader.ReadConfigMap(name, found.Value)
	if err != nil {
		return Observed[*PolicyFacts]{Value: &PolicyFacts{ConfigMap: name, Mistake: shortenError(err)}}
	}
	return Observed[*PolicyFacts]{Value: &PolicyFacts{ConfigMap: name, Rules: len(p.EnabledRules())}}
}

// leaseObservation is the time after which a Lease is read again. A leader renews it every 2 s.
const leaseObservation = 4 * time.Second

// readLease sets the Lease of the leader. If the Lease seems to have expired, the clock of this machine can be
// wrong, so it waits for a renewal.
func (r Reader) readLease(ctx context.Context, i *Installation) {
	name, ok := i.Controller.Flag("lease-name")
	if !ok || i.Namespace == "" {
		return
	}
	read := func() Observed[*coordinationv1.Lease] {
		lease, err := r.Client.CoordinationV1().Leases(i.Namespace).Get(ctx, name, metav1.GetOptions{})
		return observe(lease, err)
	}
	i.Lease = read()
	if i.Lease.Value == nil || !i.isStale(r.Clock.Now()) {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-r.Clock.After(leaseObservation):
	}
	before := i.Lease.Value.ResourceVersion
	if again := read(); again.Value != nil {
		i.Lease, i.LeaseRenewed = again, again.Value.ResourceVersion != before
	}
}
