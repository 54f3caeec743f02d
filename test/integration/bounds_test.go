package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestBounds checks how an API server and its clients handle the bounds of the webhooks.
func TestBounds(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.New(t, c)}
	t.Run("TooLarge", func(t *testing.T) { testTooLargeWorkload(t, m, m.createNamespace(t)) })
	t.Run("IncompleteRequests", func(t *testing.T) { testIncompleteRequests(t, m, m.createNamespace(t)) })
	t.Run("Chart", func(t *testing.T) { testChartBounds(t, c) })
}

// testTooLargeWorkload checks that users read why a workload is denied.
func testTooLargeWorkload(t *testing.T, m *manager, ns string) {
	job := newJob("train", 1)
	for i := range 6000 {
		job.Spec.Template.Spec.Containers[0].Env = append(job.Spec.Template.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: "x"})
	}
	_, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{})
	const want = "the request contains a list or an object with more than 5000 elements, " +
		"which exceeds a bound of Rollcall; " +
		"move data from the pod template and from annotations to a ConfigMap or to a volume"
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// testIncompleteRequests checks that requests that do not arrive completely refuse no request of the API server.
func testIncompleteRequests(t *testing.T, m *manager, ns string) {
	endpoint := readWebhookURL(t, m)
	for i := range 5 {
		for range 8 {
			defer sendIncompleteRequest(t, endpoint)()
		}
		err := m.Client.BatchV1().RESTClient().Post().Namespace(ns).Resource("jobs").MaxRetries(0).
			Body(newJob(fmt.Sprintf("train-%d", i), 1)).Do(t.Context()).Error()
		if err != nil {
			t.Errorf("creating a Job: %v", err)
		}
	}
}

// readWebhookURL returns the address of the endpoint that injects workloads.
func readWebhookURL(t *testing.T, m *manager) *url.URL {
	t.Helper()
	configuration, err := m.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(
		t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := url.Parse(*configuration.Webhooks[0].ClientConfig.URL)
	if err != nil {
		t.Fatal(err)
	}
	return endpoint
}

// sendIncompleteRequest sends the beginning of a request and returns a function that closes the
// connection.
func sendIncompleteRequest(t *testing.T, endpoint *url.URL) func() {
	t.Helper()
	// the test does not verify the certificate
	conn, err := tls.Dial("tcp", endpoint.Host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		endpoint.Path, endpoint.Host)
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Close() }
}

// testChartBounds checks what the chart installs to bound the managers.
func testChartBounds(t *testing.T, c *cluster.Cluster) {
	client := kubernetes.NewForConfigOrDie(c.Config())
	ctx, dryRun := t.Context(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	objects := renderChart(t, c,
		"--set-json", `networkPolicy.apiServerCIDRs=["192.0.2.0/28"]`,
		"--set-json", `networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"team":"monitoring"}}}]`)

	ports := map[string][]string{}
	for _, o := range objects {
		policy, ok := o.(*networkingv1.NetworkPolicy)
		if !ok {
			continue
		}
		policy.Namespace = "default"
		if _, err := client.NetworkingV1().NetworkPolicies("default").Create(ctx, policy, dryRun); err != nil {
			t.Errorf("creating the NetworkPolicy %s: %v", policy.Name, err)
		}
		for _, rule := range policy.Spec.Ingress {
			port := rule.Ports[0].Port.String()
			ports[policy.Name] = append(ports[policy.Name], port)
			if port == "webhook" && rule.From[0].IPBlock.CIDR != "192.0.2.0/28" {
				t.Errorf("the webhook port allows %+v", rule.From)
			}
		}
	}
	wantPorts := map[string][]string{
		installation.WebhookName:    {"webhook", "health", "metrics"},
		installation.ControllerName: {"health", "metrics"},
	}
	if diff := cmp.Diff(wantPorts, ports); diff != "" {
		t.Errorf("open ports: -want, +got:\n%s", diff)
	}
	// The chart does not know who reads the metrics.
	for _, o := range renderChart(t, c, "--set", "flowSchema.enabled=false",
		"--set-json", `networkPolicy.apiServerCIDRs=["192.0.2.0/28"]`) {
		switch o.(type) {
		case *networkingv1.NetworkPolicy, *flowcontrolv1.FlowSchema:
			t.Errorf("the chart contains a %T that the values disable", o)
		}
	}

	unlimited := renderChart(t, c, "--set", "webhook.resources.limits=null,controller.resources.limits=null")
	for _, name := range []string{installation.WebhookName, installation.ControllerName} {
		container := installation.FindDeployment(t, objects, name).Spec.Template.Spec.Containers[0]
		last := container.Env[len(container.Env)-1]
		if last.Name != "GOMEMLIMIT" || last.ValueFrom.ResourceFieldRef.Resource != "limits.memory" ||
			last.ValueFrom.ResourceFieldRef.ContainerName != container.Name {
			t.Errorf("%s: the last variable is %+v, want GOMEMLIMIT", name, last)
		}
		for _, e := range installation.FindDeployment(t, unlimited, name).Spec.Template.Spec.Containers[0].Env {
			if e.Name == "GOMEMLIMIT" {
				t.Errorf("%s: GOMEMLIMIT is set without a memory limit; it would be the memory of the node", name)
			}
		}
	}
	checkFlowSchema(t, c, client, installation.SingleObject[*flowcontrolv1.FlowSchema](t, objects))
}

// checkFlowSchema installs a FlowSchema and checks that it applies to the requests of both parts.
func checkFlowSchema(t *testing.T, c *cluster.Cluster, client kubernetes.Interface, schema *flowcontrolv1.FlowSchema) {
	t.Helper()
	created, err := client.FlowcontrolV1().FlowSchemas().Create(t.Context(), schema, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating the FlowSchema: %v", err)
	}
	for _, user := range []string{installation.WebhookUser, installation.ControllerUser} {
		checkFlowSchemaOfUser(t, c, user, created)
	}
}

func checkFlowSchemaOfUser(t *testing.T, c *cluster.Cluster, user string, created *flowcontrolv1.FlowSchema) {
	t.Helper()
	config := rest.CopyConfig(c.Config())
	config.Impersonate.UserName = user
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the FlowSchema to apply to "+user, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/apis/batch/v1/jobs?limit=1", nil)
		if err != nil {
			return err
		}
		response, err := transport.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if uid := response.Header.Get("X-Kubernetes-PF-FlowSchema-UID"); uid != string(created.UID) {
			return fmt.Errorf("the request has the FlowSchema %q, want %q", uid, created.UID)
		}
		return nil
	})
}
