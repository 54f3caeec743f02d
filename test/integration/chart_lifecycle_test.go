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
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rollcall.training/certs"
	"rollcall.training/certs/owner"
	"rollcall.training/test/cluster"
)

// testLifecycle installs the chart, does what the manager does with the manager's own rights, upgrades and uninstalls.
func testLifecycle(t *testing.T, c *cluster.Cluster) {
	client := kubernetes.NewForConfigOrDie(c.Config())
	runHelm(t, c, "install", chartRelease, chartDir, "--namespace", releaseNamespace, "--create-namespace")
	source, stop := runAsManager(t, c)
	eventually(t, "ready", func(context.Context) error { return source.Ready(readinessProbe(t)) })
	testOwners(t, client)
	eventually(t, "trust in the CA that was made again", func(ctx context.Context) error { return trusted(ctx, t, client) })
	testManagersDown(t, client)
	t.Run("ServiceOwners", func(t *testing.T) { testServiceOwners(t, c, client) })
	t.Run("StatefulSets", func(t *testing.T) { testStatefulSetsDown(t, client) })

	before := liveBundles(t, client)
	runHelm(t, c, "upgrade", chartRelease, chartDir, "--namespace", releaseNamespace,
		"--set", "webhook.timeoutSeconds=7", "--set", "logLevel=debug")
	if diff := cmp.Diff(before, liveBundles(t, client)); diff != "" {
		t.Errorf("helm upgrade changed the bundles: -before, +after:\n%s", diff)
	}
	if hasPolicy(c) {
		testRankModeChanges(t, c, before)
	}

	// The order is the worst: managers still run while what they made is taken away.
	runHelm(t, c, "uninstall", chartRelease, "--namespace", releaseNamespace)
	eventually(t, "nothing left behind", func(context.Context) error { return leftBehind(t, client) })
	stop()
	if err := leftBehind(t, client); err != nil {
		t.Errorf("after the managers' end: %v", err)
	}
}

// testOwners checks that what was made at run time will go with the release.
func testOwners(t *testing.T, client kubernetes.Interface) {
	account, err := client.CoreV1().ServiceAccounts(releaseNamespace).Get(t.Context(), chartRelease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name, UID: account.UID}}
	check := func(kind string, get func() (metav1.Object, error)) {
		eventually(t, "the owner of the "+kind, func(context.Context) error {
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
		return client.CoreV1().Secrets(releaseNamespace).Get(t.Context(), "rollcall-ca", metav1.GetOptions{})
	}
	check("Secret", secret)
	check("Lease", func() (metav1.Object, error) {
		return client.CoordinationV1().Leases(releaseNamespace).Get(t.Context(), "rollcall", metav1.GetOptions{})
	})
	if err := client.CoreV1().Secrets(releaseNamespace).Delete(t.Context(), "rollcall-ca", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	check("Secret that was made again", secret)
}

// testServiceOwners checks that the manager may have a Service owned by a member that comes later than the first.
func testServiceOwners(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	config := rest.CopyConfig(c.Config())
	config.Impersonate.UserName = "system:serviceaccount:" + releaseNamespace + ":" + chartRelease
	services := kubernetes.NewForConfigOrDie(config).CoreV1().Services("default")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gang-"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "chart"}},
	}
	for range 2 {
		member, err := client.BatchV1().Jobs("default").Create(t.Context(), chartJob(nil), metav1.CreateOptions{})
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
		if _, err := services.Patch(t.Context(), service.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("The second member of a gang owns the Service too.\npatching it: %v", err)
		}
	}
}

// testManagersDown checks what can be done while no manager answers, as there are no nodes for any.
func testManagersDown(t *testing.T, client kubernetes.Interface) {
	injected := map[string]string{frameworkLabel: "pytorch"}
	cases := map[string]struct {
		reason    string
		namespace string
		labels    map[string]string
		wantErr   string
	}{
		"Labelled":     {"What would have become a gang is refused.", "default", injected, "inject.rollcall.training"},
		"Unlabelled":   {"Others are not concerned.", "default", nil, ""},
		"SwitchedOff":  {"Nor is what was exempted.", "default", map[string]string{frameworkLabel: "pytorch", "rollcall.training/inject": "false"}, ""},
		"System":       {"Nor are the cluster's own.", "kube-system", injected, ""},
		"OurNamespace": {"Nor is the release's namespace.", releaseNamespace, injected, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := client.BatchV1().Jobs(tc.namespace).Create(t.Context(), chartJob(tc.labels), metav1.CreateOptions{})
			if tc.wantErr == "" && err != nil {
				t.Errorf("%s\ncreating a Job: %v", tc.reason, err)
			}
			if tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("%s\ncreating a Job: error %v, want one with %q", tc.reason, err, tc.wantErr)
			}
		})
	}
	t.Run("UpdateJob", func(t *testing.T) {
		jobs := client.BatchV1().Jobs("default")
		j, err := jobs.Create(t.Context(), chartJob(nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patch := []byte(`{"metadata":{"labels":{"` + frameworkLabel + `":"pytorch"}},"spec":{"suspend":false}}`)
		if _, err := jobs.Patch(t.Context(), j.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("An update of a Job is never refused.\npatching a Job: %v", err)
		}
	})
}

// testStatefulSetsDown checks that without managers a labelled StatefulSet cannot be changed, but can go: what takes its
// finalizers away is an update too.
func testStatefulSetsDown(t *testing.T, client kubernetes.Interface) {
	sets := client.AppsV1().StatefulSets("default")
	labels := map[string]string{"app": "chart"}
	set, err := sets.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "chart-",
			Labels:       map[string]string{frameworkLabel: "pytorch", "rollcall.training/inject": "false"},
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
		t.Errorf("patching a labelled StatefulSet: error %v, want one that names a webhook", err)
	}
	if err := sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := sets.Patch(t.Context(), set.Name, types.MergePatchType, optIn, metav1.PatchOptions{}); err != nil {
		t.Errorf("patching a labelled StatefulSet that is being deleted: %v", err)
	}
}

func chartJob(labels map[string]string) *batchv1.Job {
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

// runAsManager does what concerns certificates and owners in the manager, as the chart's ServiceAccount.
func runAsManager(t *testing.T, c *cluster.Cluster) (source *certs.Source, stop func()) {
	t.Helper()
	admin := kubernetes.NewForConfigOrDie(c.Config())
	token, err := admin.CoreV1().ServiceAccounts(releaseNamespace).
		CreateToken(t.Context(), chartRelease, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerToken = token.Status.Token
	client := kubernetes.NewForConfigOrDie(config)
	source, err = certs.New(certs.Options{
		RESTConfig:              config,
		Namespace:               releaseNamespace,
		SecretName:              "rollcall-ca",
		DNSNames:                []string{"rollcall.rollcall-system.svc"},
		MutatingConfiguration:   "rollcall",
		ValidatingConfiguration: "rollcall",
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
		if err := owner.KeepLease(ctx, client, releaseNamespace, "rollcall"); err != nil {
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

// trusted says which webhook does not trust the CA of the Secret.
func trusted(ctx context.Context, t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	secret, err := client.CoreV1().Secrets(releaseNamespace).Get(ctx, "rollcall-ca", metav1.GetOptions{})
	if err != nil {
		return err
	}
	ca := strings.TrimSpace(string(secret.Data[corev1.TLSCertKey]))
	if ca == "" {
		return errors.New("the Secret is empty")
	}
	for name, bundle := range liveBundles(t, client) {
		if !strings.Contains(bundle, ca) {
			return fmt.Errorf("%s does not trust it yet", name)
		}
	}
	return nil
}

// liveBundles returns the bundle of each of our webhooks, and fails if one has none.
func liveBundles(t *testing.T, client kubernetes.Interface) map[string]string {
	t.Helper()
	bundles := map[string]string{}
	api := client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(t.Context(), chartRelease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range mutating.Webhooks {
		bundles[w.Name] = string(w.ClientConfig.CABundle)
	}
	validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), chartRelease, metav1.GetOptions{})
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

// leftBehind says what there still is of the release.
func leftBehind(t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	ctx, all := t.Context(), metav1.ListOptions{}
	var left []error
	note := func(kind string, name string) { left = append(left, fmt.Errorf("%s %s is left", kind, name)) }

	secrets, err := client.CoreV1().Secrets(releaseNamespace).List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range secrets.Items {
		note("Secret", o.Name)
	}
	leases, err := client.CoordinationV1().Leases(releaseNamespace).List(ctx, all)
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
	policies, err := policiesLeft(ctx, client)
	if err != nil {
		return err
	}
	left = append(left, policies...)
	roles, err := client.RbacV1().ClusterRoles().List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range roles.Items {
		if strings.Contains(o.Name, chartRelease) {
			note("ClusterRole", o.Name)
		}
	}
	return errors.Join(left...)
}

// readinessProbe is a request as the kubelet makes it.
func readinessProbe(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
}
