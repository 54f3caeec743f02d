package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/policy/configmap"
)

// Names of the components: the containers, and the labels of the Deployments.
const (
	webhookComponent    = "webhook"
	controllerComponent = "controller"
)

// listDeployments returns the Deployments of all releases. Without the permission for all namespaces, it
// tries the namespaces of the webhook configurations.
func (r Reader) listDeployments(ctx context.Context, f Facts) Observed[[]appsv1.Deployment] {
	options := metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s in (%s,%s)", labelComponent, webhookComponent, controllerComponent),
	}
	list, err := r.Client.AppsV1().Deployments(r.ReleaseNamespace).List(ctx, options)
	grant := "list deployments.apps in the namespace of the release, and set --release-namespace"
	if apierrors.IsForbidden(err) && r.ReleaseNamespace == "" {
		for _, namespace := range findServiceNamespaces(f) {
			if list, err = r.Client.AppsV1().Deployments(namespace).List(ctx, options); err == nil {
				break
			}
		}
	}
	if err != nil {
		return observe([]appsv1.Deployment(nil), err, grant)
	}
	return observe(slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return !isOfChart(&d) }), nil, grant)
}

// findServiceNamespaces returns the namespaces of the Services that webhooks of Rollcall call.
func findServiceNamespaces(f Facts) []string {
	var namespaces []string
	for _, c := range f.MutatingConfigurations.Value {
		for _, w := range c.Webhooks {
			if service := w.ClientConfig.Service; w.Name == injectWebhook && service != nil {
				namespaces = append(namespaces, service.Namespace)
			}
		}
	}
	return namespaces
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
	i.Webhook = r.readComponent(ctx, i.Release, webhookComponent, deployments)
	i.Controller = r.readComponent(ctx, i.Release, controllerComponent, deployments)
	i.selectConfigurations(f)
	i.parseBundles()
	if client := i.findClient(); client != nil && client.Service != nil {
		r.readService(ctx, &i, *client.Service)
		if r.InCluster {
			served := readServedCertificates(ctx, *client.Service)
			i.Served = &served
		}
	}
	i.Secret = r.readSecret(ctx, &i)
	i.Permissions = r.readControllerPermissions(ctx, i.Controller)
	i.Policy = r.readPolicy(ctx, &i)
	r.readLease(ctx, &i)
	i.Admission = r.tryAdmission(ctx, &i)
	return i
}

// readComponent returns a component of a release, with its pods.
func (r Reader) readComponent(
	ctx context.Context, release Release, name string, deployments Observed[[]appsv1.Deployment],
) Component {
	c := Component{Name: name, Deployment: Observed[*appsv1.Deployment]{Err: deployments.Err, Grant: deployments.Grant}}
	for j, d := range deployments.Value {
		if d.Labels[labelComponent] == name && d.Labels[labelInstance] == release.Name && d.Namespace == release.Namespace {
			c.Deployment.Value = &deployments.Value[j]
		}
	}
	if c.Deployment.Value == nil {
		return c
	}
	list, err := r.Client.CoreV1().Pods(release.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(c.Deployment.Value.Spec.Selector),
	})
	c.Pods = Observed[[]corev1.Pod]{Err: err, Grant: "list pods in the namespace " + release.Namespace}
	if err == nil {
		c.Pods.Value = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	}
	return c
}

// selectConfigurations sets the webhook configurations of the release.
func (i *Installation) selectConfigurations(f Facts) {
	i.Mutating = Observed[*admissionv1.MutatingWebhookConfiguration]{
		Err: f.MutatingConfigurations.Err, Grant: f.MutatingConfigurations.Grant,
	}
	isOwn := func(o metav1.Object) bool {
		return isOfChart(o) && (i.Name == "" || o.GetLabels()[labelInstance] == i.Name)
	}
	for j := range f.MutatingConfigurations.Value {
		if c := &f.MutatingConfigurations.Value[j]; isOwn(c) {
			i.Mutating.Value = c
		}
	}
	i.Validating = Observed[*admissionv1.ValidatingWebhookConfiguration]{
		Err: f.ValidatingConfigurations.Err, Grant: f.ValidatingConfigurations.Grant,
	}
	for j := range f.ValidatingConfigurations.Value {
		if c := &f.ValidatingConfigurations.Value[j]; isOwn(c) {
			i.Validating.Value = c
		}
	}
}

// parseBundles sets the CA bundles of all webhooks.
func (i *Installation) parseBundles() {
	i.Bundles = map[string]Bundle{}
	for _, w := range i.listWebhooks() {
		b := Bundle{Size: len(w.client.CABundle)}
		if b.Size > 0 {
			b.Certificates, b.Err = cert.ParseCertsPEM(w.client.CABundle)
		}
		i.Bundles[w.name] = b
	}
}

// readService sets the Service of the webhooks and its endpoints.
func (r Reader) readService(ctx context.Context, i *Installation, ref admissionv1.ServiceReference) {
	service, err := r.Client.CoreV1().Services(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	i.Service = observe(service, err, "get services in the namespace "+ref.Namespace)
	list, err := r.Client.DiscoveryV1().EndpointSlices(ref.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + ref.Name,
	})
	var n Endpoints
	if err == nil {
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if ptr.Deref(e.Conditions.Ready, true) {
					n.Ready++
				} else {
					n.NotReady++
				}
			}
		}
	}
	i.Endpoints = observe(n, err, "list endpointslices.discovery.k8s.io in the namespace "+ref.Namespace)
}

// dialTimeout limits the connection to the Service of the webhooks.
const dialTimeout = 5 * time.Second

// readServedCertificates returns the certificates that the webhook presents. The caller verifies them.
func readServedCertificates(ctx context.Context, ref admissionv1.ServiceReference) Observed[[]*x509.Certificate] {
	host := fmt.Sprintf("%s.%s.svc", ref.Name, ref.Namespace)
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: dialTimeout},
		Config:    &tls.Config{ServerName: host, InsecureSkipVerify: true},
	}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(ptr.Deref(ref.Port, 443))))
	if err != nil {
		return Observed[[]*x509.Certificate]{Err: fmt.Errorf("connecting to the Service: %w", err)}
	}
	defer func() { _ = connection.Close() }()
	state := connection.(*tls.Conn).ConnectionState()
	return Observed[[]*x509.Certificate]{Value: state.PeerCertificates}
}

// readSecret returns the certificates of the Secret of the webhook.
func (r Reader) readSecret(ctx context.Context, i *Installation) Observed[[]*x509.Certificate] {
	name, found := i.Webhook.Flag("secret-name")
	if !i.managesCertificates() && i.Webhook.Deployment.Value != nil {
		for _, volume := range i.Webhook.Deployment.Value.Spec.Template.Spec.Volumes {
			if volume.Name == "certificate" && volume.Secret != nil {
				name, found = volume.Secret.SecretName, true
			}
		}
	}
	if !found {
		return Observed[[]*x509.Certificate]{Err: i.Webhook.Deployment.Err, Grant: i.Webhook.Deployment.Grant}
	}
	grant := "get the Secret " + name + " in the namespace " + i.Namespace
	secret, err := r.Client.CoreV1().Secrets(i.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || len(secret.Data[corev1.TLSCertKey]) == 0 {
		return observe([]*x509.Certificate(nil), err, grant)
	}
	certificates, err := cert.ParseCertsPEM(secret.Data[corev1.TLSCertKey])
	return observe(certificates, err, grant)
}

// readPolicy returns the policy for gangs. It is nil if the controller has none.
func (r Reader) readPolicy(ctx context.Context, i *Installation) *PolicyFacts {
	name, ok := i.Controller.Flag("policy-configmap")
	if !ok || name == "" {
		return nil
	}
	_, readsNamespaces := i.Controller.Flag("policy-read-namespaces")
	reader := configmap.FileReader{Frameworks: r.Frameworks, ReadsNamespaces: readsNamespaces}
	read := func(name string) Observed[PolicyFile] {
		m, err := r.Client.CoreV1().ConfigMaps(i.Namespace).Get(ctx, name, metav1.GetOptions{})
		out := observe(m, err, "get the ConfigMap "+name+" in the namespace "+i.Namespace)
		if out.Err != nil {
			return Observed[PolicyFile]{Err: out.Err, Grant: out.Grant}
		}
		p, _, err := reader.ReadConfigMap(name, out.Value)
		if err != nil {
			return Observed[PolicyFile]{Value: PolicyFile{Mistake: shortenError(err)}}
		}
		return Observed[PolicyFile]{Value: PolicyFile{Digest: p.Digest(), Rules: len(p.EnabledRules())}}
	}
	ceiling, _ := i.Controller.Flag("policy-ceiling")
	return &PolicyFacts{
		ConfigMap: name, Ceiling: ceiling, Current: read(name), Accepted: read(configmap.AcceptedName(name)),
	}
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
		return observe(lease, err, "get leases.coordination.k8s.io in the namespace "+i.Namespace)
	}
	i.Lease = read()
	if i.Lease.Value == nil || !(Facts{Time: r.Clock.Now()}).isStale(i) {
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
