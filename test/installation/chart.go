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
	// Release is the chart's release. With that name, objects have the chart's own.
	Release = "rollcall"
	// Namespace is the release's.
	Namespace = "rollcall-system"
	// User is what the API server calls Rollcall.
	User = "system:serviceaccount:" + Namespace + ":" + Release
)

// root finds the repository's root from wherever a test of this module runs.
var root = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "rollcall.training").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module rollcall.training: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// Render returns the objects of the chart as "helm install" would make them in the cluster, strictly decoded: an unknown
// field is an error.
func Render(t testing.TB, c *cluster.Cluster, args ...string) []runtime.Object {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"template", Release, filepath.Join(dir, "charts", "rollcall"), "--namespace", Namespace}
	manifests, err := c.Helm(t.Context(), slices.Concat(command, capabilities(t, c), args)...)
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

// capabilities tells "helm template", which asks no cluster, what this one's admission API has.
func capabilities(t testing.TB, c *cluster.Cluster) []string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	version := admissionv1.SchemeGroupVersion.String()
	served, err := client.Discovery().ServerResourcesForGroupVersion(version)
	if err != nil {
		t.Fatalf("asking what the cluster serves: %v", err)
	}
	var args []string
	for _, r := range served.APIResources {
		args = append(args, "--api-versions", version+"/"+r.Kind)
	}
	return args
}

// One returns the only object of its kind.
func One[T runtime.Object](t testing.TB, objects []runtime.Object) T {
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

// install creates what the chart has, but for what runs the manager's pods and leads to them.
func (m *Manager) install(t testing.TB) {
	t.Helper()
	ctx, options := t.Context(), metav1.CreateOptions{}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("installing Rollcall: %v", err)
		}
	}
	must(m.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}, options))
	for _, object := range Render(t, m.Cluster, m.chart...) {
		switch o := object.(type) {
		case *corev1.ServiceAccount:
			must(m.Client.CoreV1().ServiceAccounts(Namespace).Create(ctx, o, options))
		case *rbacv1.ClusterRole:
			must(m.Client.RbacV1().ClusterRoles().Create(ctx, o, options))
		case *rbacv1.ClusterRoleBinding:
			must(m.Client.RbacV1().ClusterRoleBindings().Create(ctx, o, options))
		case *rbacv1.Role:
			must(m.Client.RbacV1().Roles(Namespace).Create(ctx, o, options))
		case *rbacv1.RoleBinding:
			must(m.Client.RbacV1().RoleBindings(Namespace).Create(ctx, o, options))
		case *admissionv1.MutatingWebhookConfiguration:
			for i := range o.Webhooks {
				m.callByURL(&o.Webhooks[i].ClientConfig)
				o.Webhooks[i].TimeoutSeconds = ptr.To[int32](30) // a machine that stalls is no failure of Rollcall's
			}
			must(m.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, o, options))
		case *admissionv1.ValidatingWebhookConfiguration:
			for i := range o.Webhooks {
				m.callByURL(&o.Webhooks[i].ClientConfig)
				o.Webhooks[i].TimeoutSeconds = ptr.To[int32](30) // a machine that stalls is no failure of Rollcall's
			}
			must(m.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, o, options))
		default:
			must(nil, m.installPolicy(ctx, object))
		}
	}
}

// installPolicy creates the object if it is an admission policy or a binding of one.
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

// callByURL replaces the chart's Service, behind which there are no pods here.
func (m *Manager) callByURL(c *admissionv1.WebhookClientConfig) {
	c.URL = ptr.To("https://" + net.JoinHostPort("localhost", strconv.Itoa(m.webhook)) + *c.Service.Path)
	c.Service = nil
}
