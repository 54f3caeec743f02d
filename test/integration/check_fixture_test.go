package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/check"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// checkedInstallation is an installation whose API server calls the webhook by its Service, as in a cluster
// with nodes.
type checkedInstallation struct {
	*manager
	// port is that of the process of the webhook.
	port int32
}

// newCheckedInstallation installs Rollcall with a policy. The Deployments have simulated pods. The Service
// has the address of the webhook's process.
func newCheckedInstallation(t *testing.T, c *cluster.Cluster) checkedInstallation {
	t.Helper()
	chart := []string{"--set", "policy.enabled=true"}
	i := checkedInstallation{manager: &manager{installation.NewWithLeaderElection(t, c, chart...)}}
	for _, object := range installation.Render(t, c, chart...) {
		var err error
		switch o := object.(type) {
		case *appsv1.Deployment:
			_, err = i.Client.AppsV1().Deployments(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *corev1.Service:
			o.Spec.Selector = nil // otherwise the endpoints would be the simulated pods
			_, err = i.Client.CoreV1().Services(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	i.port = i.readPort(t)
	i.createEndpoints(t)
	i.callService(t)
	return i
}

// findHostAddress returns an address of this machine. Endpoints must not be loopback addresses.
func findHostAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("the machine has no address besides the loopback address, which an endpoint needs")
	return ""
}

// readPort returns the port in the URL of the webhook configuration.
func (i checkedInstallation) readPort(t *testing.T) int32 {
	t.Helper()
	configuration, err := i.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Get(t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(*configuration.Webhooks[0].ClientConfig.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(address.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(port)
}

// createEndpoints makes the process of the webhook the endpoint of the Service.
func (i checkedInstallation) createEndpoints(t *testing.T) {
	t.Helper()
	//nolint:staticcheck // API servers of 1.33 find the webhook by it, and kube-controller-manager copies it
	endpoints := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: installation.Release},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: findHostAddress(t)}},
			Ports:     []corev1.EndpointPort{{Name: "webhook", Port: i.port}},
		}},
	}
	_, err := i.Client.CoreV1().Endpoints(installation.Namespace).Create(t.Context(), endpoints, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// callService makes the webhook configurations call the Service instead of a URL.
func (i checkedInstallation) callService(t *testing.T) {
	t.Helper()
	replace := func(c *admissionv1.WebhookClientConfig) {
		address, err := url.Parse(*c.URL)
		if err != nil {
			t.Fatal(err)
		}
		c.URL = nil
		c.Service = &admissionv1.ServiceReference{
			Namespace: installation.Namespace, Name: installation.Release, Path: &address.Path, Port: ptr.To[int32](443),
		}
	}
	api := i.Client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for j := range mutating.Webhooks {
		replace(&mutating.Webhooks[j].ClientConfig)
	}
	if _, err := api.MutatingWebhookConfigurations().Update(t.Context(), mutating, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for j := range validating.Webhooks {
		replace(&validating.Webhooks[j].ClientConfig)
	}
	_, err = api.ValidatingWebhookConfigurations().Update(t.Context(), validating, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// check reads the facts with a configuration, and returns the report.
func (i checkedInstallation) check(
	ctx context.Context, config *rest.Config, change func(*check.Reader),
) (check.Report, error) {
	reader, err := check.NewReader(config)
	if err != nil {
		return check.Report{}, err
	}
	reader.Version = "v0.1.0" // the version of the chart
	if change != nil {
		change(&reader)
	}
	facts, err := reader.Read(ctx)
	if err != nil {
		return check.Report{}, err
	}
	return check.Judge(facts), nil
}

// listProblems returns the results that are not ok, and "status Code" for each.
func listProblems(r check.Report) (problems []check.Result, summary []string) {
	for _, result := range r.Results {
		if result.Status != check.OK {
			problems = append(problems, result)
			summary = append(summary, fmt.Sprintf("%s %s", result.Status, result.Code))
		}
	}
	return problems, summary
}

// waitForProblems waits until a check reports exactly the problems "status Code", and returns their results.
func (i checkedInstallation) waitForProblems(t *testing.T, change func(*check.Reader), want ...string) []check.Result {
	t.Helper()
	var problems []check.Result
	wait.For(t, fmt.Sprintf("the problems %q", want), func(ctx context.Context) error {
		report, err := i.check(ctx, i.Cluster.Config(), change)
		if err != nil {
			return err
		}
		var got []string
		problems, got = listProblems(report)
		if !slices.Equal(got, want) {
			return fmt.Errorf("problems (-want +got):\n%s\n%v", cmp.Diff(want, got), problems)
		}
		return nil
	})
	return problems
}

// runFix runs the kubectl command at the end of a fix.
func (i checkedInstallation) runFix(t *testing.T, result check.Result) {
	t.Helper()
	_, command, ok := strings.Cut(": "+result.Fix, "kubectl ")
	if !ok {
		t.Fatal(errors.New("the fix contains no command: " + result.Fix))
	}
	if out, err := i.Cluster.Kubectl(t.Context(), strings.Fields(command)...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", command, err, out)
	}
}
