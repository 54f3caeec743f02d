package installation

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"rollcall.training/test/cluster"
)

const (
	// Release is the name of the Helm release. Its objects have the default names of the chart.
	Release = "rollcall"
	// Namespace is the namespace of the release.
	Namespace = "rollcall-system"
	// WebhookName is the name of the Deployment of the webhook and of its ServiceAccount.
	WebhookName = Release + "-webhook"
	// ControllerName is the name of the Deployment of the controller and of its ServiceAccount.
	ControllerName = Release + "-controller"
	// WebhookUser is the user name of the webhook for the API server.
	WebhookUser = "system:serviceaccount:" + Namespace + ":" + WebhookName
	// ControllerUser is the user name of the controller for the API server.
	ControllerUser = "system:serviceaccount:" + Namespace + ":" + ControllerName
	// ImageRepository is the repository of the image that rendered charts name. Nothing pulls it.
	ImageRepository = "registry.example.com/rollcall/manager"
	// ImageArg is the argument of helm for the only value that the chart requires.
	ImageArg = "--set=image.repository=" + ImageRepository
	// RankWebhook is the name of the webhook that assigns ranks to pods.
	RankWebhook = "pod-rank.rollcall.training"
	// RankPolicy is the name of the admission policies that assign ranks to pods, and of their bindings.
	RankPolicy = Release + "-rank"
)

// findRepositoryRoot returns the path of the repository.
var findRepositoryRoot = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "rollcall.training").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module rollcall.training: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// Render returns the objects of the chart as "helm install" would create them in the cluster, without
// those of "helm test". args are further arguments of helm. It decodes strictly: an unknown field fails the test.
func Render(t testing.TB, c *cluster.Cluster, args ...string) []runtime.Object {
	t.Helper()
	dir, err := findRepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"template", Release, filepath.Join(dir, "charts", "rollcall"), "--namespace", Namespace, "--skip-tests",
		ImageArg}
	manifests, err := c.Helm(t.Context(), slices.Concat(command, formatAPIVersionArgs(t, c), args)...)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, manifest := range bytes.Split([]byte(manifests), []byte("\n---\n")) {
		if len(bytes.TrimSpace(bytes.TrimPrefix(manifest, []byte("---")))) == 0 {
			continue
		}
		object, _, err := decoder.Decode(manifest, nil, nil)
		if err != nil {
			t.Fatalf("decoding a rendered object: %v\n%s", err, manifest)
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		t.Fatal("helm template rendered nothing")
	}
	return objects
}

// formatAPIVersionArgs returns arguments that pass the cluster's admission API to "helm template",
// which does not connect to a cluster.
func formatAPIVersionArgs(t testing.TB, c *cluster.Cluster) []string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("creating a client: %v", err)
	}
	version := admissionv1.SchemeGroupVersion.String()
	served, err := client.Discovery().ServerResourcesForGroupVersion(version)
	if err != nil {
		t.Fatalf("listing the API resources of the cluster: %v", err)
	}
	var args []string
	for _, r := range served.APIResources {
		args = append(args, "--api-versions", version+"/"+r.Kind)
	}
	return args
}

// SingleObject returns the only object of type T. It fails the test if there is none or more than
// one.
func SingleObject[T runtime.Object](t testing.TB, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, o := range objects {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want one", len(found), *new(T))
	}
	return found[0]
}

// FindDeployment returns the Deployment with a name. It fails the test if there is none.
func FindDeployment(t testing.TB, objects []runtime.Object, name string) *appsv1.Deployment {
	t.Helper()
	for _, o := range objects {
		if d, ok := o.(*appsv1.Deployment); ok && d.Name == name {
			return d
		}
	}
	t.Fatalf("the chart has no Deployment %s", name)
	return nil
}

// installChart creates the objects of the chart, except the Deployments and the Services. The processes
// get the arguments of the Deployments.
func (m *Manager) installChart(t testing.TB) {
	t.Helper()
	ctx, options := t.Context(), metav1.CreateOptions{}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("installing Rollcall: %v", err)
		}
	}
	must(m.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: Namespace},
	}, options))
	for _, object := range Render(t, m.Cluster, m.chartArgs...) {
		switch o := object.(type) {
		case *corev1.ServiceAccount:
			must(m.Client.CoreV1().ServiceAccounts(Namespace).Create(ctx, o, options))
		case *corev1.ConfigMap:
			must(m.Client.CoreV1().ConfigMaps(Namespace).Create(ctx, o, options))
		case *rbacv1.ClusterRole:
			must(m.Client.RbacV1().ClusterRoles().Create(ctx, o, options))
		case *rbacv1.ClusterRoleBinding:
			must(m.Client.RbacV1().ClusterRoleBindings().Create(ctx, o, options))
		case *rbacv1.Role:
			must(m.Client.RbacV1().Roles(o.Namespace).Create(ctx, o, options))
		case *rbacv1.RoleBinding:
			must(m.Client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, options))
		case *appsv1.Deployment:
			if o.Name == WebhookName {
				m.Webhook.args = o.Spec.Template.Spec.Containers[0].Args
			} else {
				m.Controller.args = o.Spec.Template.Spec.Containers[0].Args
			}
		case *admissionv1.MutatingWebhookConfiguration:
			for i := range o.Webhooks {
				m.replaceServiceByURL(&o.Webhooks[i].ClientConfig)
				o.Webhooks[i].TimeoutSeconds = ptr.To[int32](30) // a slow machine must not fail the tests
			}
			must(m.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, o, options))
		case *admissionv1.ValidatingWebhookConfiguration:
			for i := range o.Webhooks {
				m.replaceServiceByURL(&o.Webhooks[i].ClientConfig)
				o.Webhooks[i].TimeoutSeconds = ptr.To[int32](30) // a slow machine must not fail the tests
			}
			must(m.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, o, options))
		default:
			must(nil, m.installPolicy(ctx, object))
		}
	}
}

// installPolicy creates the object if it is an admission policy or a binding of a policy.
func (m *Manager) installPolicy(ctx context.Context, object runtime.Object) (err error) {
	api, options := m.Client.AdmissionregistrationV1(), metav1.CreateOptions{}
	switch o := object.(type) {
	case *admissionv1.MutatingAdmissionPolicy:
		_, err = api.MutatingAdmissionPolicies().Create(ctx, o, options)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		_, err = api.MutatingAdmissionPolicyBindings().Create(ctx, o, options)
	case *admissionv1.ValidatingAdmissionPolicy:
		_, err = api.ValidatingAdmissionPolicies().Create(ctx, o, options)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		_, err = api.ValidatingAdmissionPolicyBindings().Create(ctx, o, options)
	}
	return err
}

// replaceServiceByURL replaces the Service of the chart, which has no pods, with the address of the
// webhook's process.
func (m *Manager) replaceServiceByURL(c *admissionv1.WebhookClientConfig) {
	c.URL = ptr.To("https://" + net.JoinHostPort("localhost", strconv.Itoa(m.Webhook.webhookPort)) + *c.Service.Path)
	c.Service = nil
}
