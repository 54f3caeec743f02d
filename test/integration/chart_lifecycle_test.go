package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
	"rollcall.training/internal/certs"
	"rollcall.training/internal/certs/owner"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// testChartLifecycle installs the chart, acts as the manager with its own permissions, and upgrades
// and uninstalls the chart.
func testChartLifecycle(t *testing.T, c *cluster.Cluster) {
	client := kubernetes.NewForConfigOrDie(c.Config())
	runHelm(t, c, "install", installation.Release, chartDir, "--namespace", installation.Namespace, "--create-namespace",
		installation.ImageArg)
	source, stop := runCertsAsManager(t, c)
	wait.For(t, "ready", func(context.Context) error { return source.Ready(newReadinessRequest(t)) })
	testOwnerReferences(t, client)
	wait.For(t, "trust in the recreated CA", func(ctx context.Context) error { return checkCATrusted(ctx, t, client) })
	testAdmissionWithoutManager(t, client)
	t.Run("ServiceOwners", func(t *testing.T) { testServiceOwners(t, c, client) })
	t.Run("StatefulSets", func(t *testing.T) { testStatefulSetsWithoutManager(t, client) })

	t.Run("SecondRelease", func(t *testing.T) { testSecondRelease(t, c) })

	before := readLiveCABundles(t, client)
	runHelm(t, c, "upgrade", installation.Release, chartDir, "--namespace", installation.Namespace,
		installation.ImageArg, "--set", "webhook.timeoutSeconds=7", "--set", "logLevel=debug")
	if diff := cmp.Diff(before, readLiveCABundles(t, client)); diff != "" {
		t.Errorf("helm upgrade changed the bundles: -before, +after:\n%s", diff)
	}
	testConfigurationRestored(t, c, client)
	if supportsMutatingPolicies(c) {
		testRankModeChanges(t, c, readLiveCABundles(t, client))
	}

	// This is the worst order: managers still run while Helm deletes their objects.
	// Without nodes, the hook cannot run.
	runHelm(t, c, "uninstall", installation.Release, "--namespace", installation.Namespace, "--no-hooks")
	wait.For(t, "the deletion of all objects", func(context.Context) error { return checkNothingLeft(t, client) })
	stop()
	if err := checkNothingLeft(t, client); err != nil {
		t.Errorf("after the managers stopped: %v", err)
	}
}

// testConfigurationRestored checks that "helm upgrade" with unchanged values recreates a webhook
// configuration that was deleted by accident, and that its bundles return.
func testConfigurationRestored(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	t.Helper()
	if err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Delete(t.Context(), installation.Release, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	runHelm(t, c, "upgrade", installation.Release, chartDir, "--namespace", installation.Namespace, "--reuse-values")
	wait.For(t, "the bundles of the recreated configuration", func(ctx context.Context) error {
		configuration, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
			Get(ctx, installation.Release, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, w := range configuration.Webhooks {
			if len(w.ClientConfig.CABundle) == 0 {
				return fmt.Errorf("%s has no bundle", w.Name)
			}
		}
		return checkCATrusted(ctx, t, client)
	})
}

// testOwnerReferences checks that the objects created at run time are deleted with the release.
func testOwnerReferences(t *testing.T, client kubernetes.Interface) {
	check := func(kind, accountName string, get func() (metav1.Object, error)) {
		account, err := client.CoreV1().ServiceAccounts(installation.Namespace).
			Get(t.Context(), accountName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name, UID: account.UID}}
		wait.For(t, "the owner of the "+kind, func(context.Context) error {
			o, err := get()
			if err != nil {
				return err
			}
			if diff := cmp.Diff(want, o.GetOwnerReferences()); diff != "" {
				return fmt.Errorf("owners: -want, +got:\n%s", diff)
			}
			return nil
		})
	}
	secret := func() (metav1.Object, error) {
		return client.CoreV1().Secrets(installation.Namespace).Get(t.Context(), "rollcall-ca", metav1.GetOptions{})
	}
	check("Secret", installation.WebhookName, secret)
	check("Lease", installation.ControllerName, func() (metav1.Object, error) {
		return client.CoordinationV1().Leases(installation.Namespace).Get(t.Context(), "rollcall", metav1.GetOptions{})
	})
	if err := client.CoreV1().Secrets(installation.Namespace).Delete(
		t.Context(), "rollcall-ca", metav1.DeleteOptions{},
	); err != nil {
		t.Fatal(err)
	}
	check("recreated Secret", installation.WebhookName, secret)
}

// testSecondRelease checks that a second release in the cluster is rejected, because both would inject
// and restart the same gangs.
func testSecondRelease(t *testing.T, c *cluster.Cluster) {
	_, err := c.Helm(t.Context(), "install", "second", chartDir, "--namespace", "second", "--create-namespace",
		installation.ImageArg, "--dry-run=server", "--set-json", `namespaces=["default"]`)
	want := "the release of MutatingWebhookConfiguration rollcall manages the same namespaces"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("helm install: error %v, want %q", err, want)
	}
}

// testServiceOwners checks that the controller has the permission to make a later member an owner of
// the Service.
func testServiceOwners(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	controller := kubernetes.NewForConfigOrDie(newManagerConfig(t, c.Config(), installation.ControllerName))
	services := controller.CoreV1().Services("default")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gang-", Labels: map[string]string{
			"app.kubernetes.io/managed-by": "rollcall", gang.LabelGang: "chart"}},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{gang.LabelGang: "chart"}},
	}
	for range 2 {
		member, err := client.BatchV1().Jobs("default").Create(t.Context(), newChartJob(nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		owner := *metav1.NewControllerRef(member, batchv1.SchemeGroupVersion.WithKind("Job"))
		owner.Controller = nil
		service.OwnerReferences = append(service.OwnerReferences, owner)
		if service.Name == "" {
			if service, err = services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": service.OwnerReferences}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := services.Patch(
			t.Context(), service.Name, types.MergePatchType, patch, metav1.PatchOptions{},
		); err != nil {
			t.Errorf("making the second member an owner of the Service: %v", err)
		}
	}
}

// testAdmissionWithoutManager checks which requests succeed while no manager is available. There
// are no nodes to run any.
func testAdmissionWithoutManager(t *testing.T, client kubernetes.Interface) {
	injected := map[string]string{gang.LabelFramework: "pytorch"}
	optedOut := map[string]string{gang.LabelFramework: "pytorch", gang.LabelInject: "false"}
	cases := map[string]struct {
		namespace string
		labels    map[string]string
		wantErr   string
	}{
		"labeled Job is denied":     {namespace: "default", labels: injected, wantErr: "inject.rollcall.training"},
		"unlabeled Job is admitted": {namespace: "default"},
		"opted-out Job is admitted": {namespace: "default", labels: optedOut},
		"kube-system is excluded":   {namespace: "kube-system", labels: injected},
		"own namespace is excluded": {namespace: installation.Namespace, labels: injected},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := client.BatchV1().Jobs(tc.namespace).Create(t.Context(), newChartJob(tc.labels), metav1.CreateOptions{})
			if tc.wantErr == "" && err != nil {
				t.Errorf("creating a Job: %v", err)
			}
			if tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("creating a Job: error %v, want an error with %q", err, tc.wantErr)
			}
		})
	}
	t.Run("update of a Job is admitted", func(t *testing.T) {
		jobs := client.BatchV1().Jobs("default")
		j, err := jobs.Create(t.Context(), newChartJob(nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patch := []byte(`{"metadata":{"labels":{"` + gang.LabelFramework + `":"pytorch"}},"spec":{"suspend":false}}`)
		if _, err := jobs.Patch(t.Context(), j.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("patching a Job: %v", err)
		}
	})
}

// testStatefulSetsWithoutManager checks that labeled StatefulSets cannot be changed without a
// manager, but can be deleted. The removal of their finalizers is an update too.
func testStatefulSetsWithoutManager(t *testing.T, client kubernetes.Interface) {
	sets := client.AppsV1().StatefulSets("default")
	labels := map[string]string{"app": "chart"}
	set, err := sets.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "chart-",
			Labels:       map[string]string{gang.LabelFramework: "pytorch", "rollcall.training/inject": "false"},
			Finalizers:   []string{"chart.test/finalizer"},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "train", Image: "train"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	optIn := []byte(`{"metadata":{"labels":{"rollcall.training/inject":null},"finalizers":null}}`)
	_, err = sets.Patch(t.Context(), set.Name, types.MergePatchType, optIn, metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "rollcall.training") {
		t.Errorf("patching a labeled StatefulSet: error %v, want one that names a webhook", err)
	}
	if err := sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := sets.Patch(t.Context(), set.Name, types.MergePatchType, optIn, metav1.PatchOptions{}); err != nil {
		t.Errorf("patching a labeled StatefulSet that is being deleted: %v", err)
	}
}

func newChartJob(labels map[string]string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "chart-", Labels: labels},
		Spec: batchv1.JobSpec{
			Suspend: new(true),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "train", Image: "train"}},
			}},
		},
	}
}

// runCertsAsManager runs the code for certificates and owners with the ServiceAccounts of the chart.
func runCertsAsManager(t *testing.T, c *cluster.Cluster) (source *certs.Source, stop func()) {
	t.Helper()
	controller := kubernetes.NewForConfigOrDie(newManagerConfig(t, c.Config(), installation.ControllerName))
	source, err := certs.NewSource(certs.Options{
		RESTConfig:              newManagerConfig(t, c.Config(), installation.WebhookName),
		Namespace:               installation.Namespace,
		SecretName:              "rollcall-ca",
		DNSNames:                []string{"rollcall.rollcall-system.svc"},
		MutatingConfiguration:   "rollcall",
		ValidatingConfiguration: "rollcall",
		CADuration:              certs.DefaultCADuration,
		LeafDuration:            certs.DefaultLeafDuration,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := source.Start(ctx); err != nil {
			t.Errorf("Start(...): %v", err)
		}
	})
	running.Go(func() {
		if err := owner.KeepLeaseOwned(ctx, controller, installation.Namespace, "rollcall"); err != nil {
			t.Errorf("KeepLease(...): %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return source, stop
}

// checkCATrusted returns an error that names a webhook without the CA of the Secret.
func checkCATrusted(ctx context.Context, t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	secret, err := client.CoreV1().Secrets(installation.Namespace).Get(ctx, "rollcall-ca", metav1.GetOptions{})
	if err != nil {
		return err
	}
	ca := strings.TrimSpace(string(secret.Data[corev1.TLSCertKey]))
	if ca == "" {
		return errors.New("the Secret is empty")
	}
	for name, bundle := range readLiveCABundles(t, client) {
		if !strings.Contains(bundle, ca) {
			return fmt.Errorf("%s does not trust it yet", name)
		}
	}
	return nil
}

// readLiveCABundles returns the bundle of each webhook. It fails the test if a webhook has none.
func readLiveCABundles(t *testing.T, client kubernetes.Interface) map[string]string {
	t.Helper()
	bundles := map[string]string{}
	api := client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range mutating.Webhooks {
		bundles[w.Name] = string(w.ClientConfig.CABundle)
	}
	validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range validating.Webhooks {
		bundles[w.Name] = string(w.ClientConfig.CABundle)
	}
	for name, bundle := range bundles {
		if bundle == "" {
			t.Errorf("%s has no bundle", name)
		}
	}
	return bundles
}

// checkNothingLeft returns an error that lists the remaining objects of the release.
func checkNothingLeft(t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	ctx, all := t.Context(), metav1.ListOptions{}
	var left []error
	note := func(kind string, name string) { left = append(left, fmt.Errorf("%s %s is left", kind, name)) }

	secrets, err := client.CoreV1().Secrets(installation.Namespace).List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range secrets.Items {
		note("Secret", o.Name)
	}
	leases, err := client.CoordinationV1().Leases(installation.Namespace).List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range leases.Items {
		note("Lease", o.Name)
	}
	mutating, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range mutating.Items {
		note("MutatingWebhookConfiguration", o.Name)
	}
	validating, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range validating.Items {
		note("ValidatingWebhookConfiguration", o.Name)
	}
	policies, err := findLeftoverPolicies(ctx, client)
	if err != nil {
		return err
	}
	left = append(left, policies...)
	roles, err := client.RbacV1().ClusterRoles().List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range roles.Items {
		if strings.Contains(o.Name, installation.Release) {
			note("ClusterRole", o.Name)
		}
	}
	return errors.Join(left...)
}

// newReadinessRequest returns a request like the kubelet's.
func newReadinessRequest(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
}
