package installation

import (
	"bytes"
	"encoding/json"
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
	"k8s.io/apimachinery/pkg/api/meta"
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
	return renderSource(t, c, dir, args...)
}

// renderSource is Render for the chart in another source folder.
func renderSource(t testing.TB, c *cluster.Cluster, dir string, args ...string) []runtime.Object {
	t.Helper()
	command := []string{"template", Release, filepath.Join(dir, "charts", "rollcall"),
		"--namespace", Namespace, "--skip-tests", ImageArg}
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

// applyChart applies the objects of the chart, except the Deployments, the Services and other objects that
// concern pods of Rollcall. The processes get the arguments of the Deployments. Objects that another chart
// had applied before are deleted.
func (m *Manager) applyChart(t testing.TB) {
	t.Helper()
	m.Webhook.args, m.Controller.args = nil, nil
	applied := map[string]bool{}
	list := &metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for _, object := range renderSource(t, m.Cluster, m.source, m.chartArgs...) {
		if d, ok := object.(*appsv1.Deployment); ok {
			m.setArguments(t, d)
			continue
		}
		if !m.adaptObject(object) {
			continue
		}
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatalf("encoding an object of the chart: %v", err)
		}
		list.Items = append(list.Items, runtime.RawExtension{Raw: raw})
		applied[formatReference(t, object)] = true
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatalf("encoding the objects of the chart: %v", err)
	}
	// Helm applies in this way, too. The CA bundles belong to the webhook, and stay.
	if _, err := m.Cluster.KubectlWithInput(t.Context(), string(text),
		"apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", "-"); err != nil {
		t.Fatalf("installing Rollcall: %v", err)
	}
	for reference := range m.applied {
		if applied[reference] {
			continue
		}
		if _, err := m.Cluster.Kubectl(t.Context(), "delete", "--namespace", Namespace, reference); err != nil {
			t.Fatalf("deleting an object of the previous chart: %v", err)
		}
	}
	m.applied = applied
}

// setArguments takes the arguments and the ServiceAccount of a Deployment. A build with one Deployment has
// one process, which is that of the webhook.
func (m *Manager) setArguments(t testing.TB, d *appsv1.Deployment) {
	t.Helper()
	container := d.Spec.Template.Spec.Containers[0]
	args, port := container.Args, strconv.Itoa(m.Webhook.webhookPort)
	account, memoryLimit := d.Spec.Template.Spec.ServiceAccountName, container.Resources.Limits.Memory().Value()
	switch d.Name {
	case WebhookName:
		m.Webhook.args, m.Webhook.account, m.Webhook.memoryLimit = args, account, memoryLimit
		m.Webhook.flags = append([]string{"--port=" + port, "--shutdown-delay=0s"}, m.webhookFlags...)
	case ControllerName:
		m.Controller.args, m.Controller.account, m.Controller.memoryLimit = args, account, memoryLimit
	case Release:
		m.Webhook.args, m.Webhook.account = args, account
		m.Webhook.flags = []string{"--webhook-port=" + port, "--shutdown-delay=0s", "--leader-elect=false"}
	default:
		t.Fatalf("the chart has an unknown Deployment %s", d.Name)
	}
}

// adaptObject adapts an object of the chart to processes outside of the cluster. It reports whether the
// installation needs the object.
func (m *Manager) adaptObject(object runtime.Object) bool {
	switch o := object.(type) {
	case *corev1.ServiceAccount:
		o.Namespace = Namespace
	case *corev1.ConfigMap:
		o.Namespace = Namespace
	case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *rbacv1.Role, *rbacv1.RoleBinding,
		*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding,
		*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding:
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			m.replaceServiceByURL(&o.Webhooks[i].ClientConfig)
			o.Webhooks[i].TimeoutSeconds = ptr.To[int32](30) // a slow machine must not fail the tests
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			m.replaceServiceByURL(&o.Webhooks[i].ClientConfig)
			o.Webhooks[i].TimeoutSeconds = ptr.To[int32](30) // a slow machine must not fail the tests
		}
	default:
		return false
	}
	return true
}

// formatReference returns the kind and the name of an object, as kubectl expects them. All objects with a
// namespace are in that of the release, or in one that exists as long as the cluster.
func formatReference(t testing.TB, object runtime.Object) string {
	t.Helper()
	accessor, err := meta.Accessor(object)
	if err != nil {
		t.Fatalf("reading the metadata of an object of the chart: %v", err)
	}
	return strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind) + "/" + accessor.GetName()
}

// replaceServiceByURL replaces the Service of the chart, which has no pods, with the address of the
// webhook's process.
func (m *Manager) replaceServiceByURL(c *admissionv1.WebhookClientConfig) {
	c.URL = ptr.To("https://" + net.JoinHostPort("localhost", strconv.Itoa(m.Webhook.webhookPort)) + *c.Service.Path)
	c.Service = nil
}
