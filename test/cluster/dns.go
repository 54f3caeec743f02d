package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// dnsUser is the user name of CoreDNS for the API server.
const dnsUser = "rollcall-test-coredns"

// corefileTemplate answers queries for names of the cluster, and NXDOMAIN for all other names:
// tests must not depend on external DNS, and resolvers would retry refused queries. CoreDNS caches
// nothing, so that a name exists as soon as its pod does.
const corefileTemplate = `%[1]s in-addr.arpa {
	bind %[2]s
	errors
	kubernetes %[1]s in-addr.arpa {
		kubeconfig %[3]s
		ttl 0
	}
}
. {
	bind %[2]s
	errors
	template ANY ANY {
		rcode NXDOMAIN
	}
}
`

// startDNS runs CoreDNS as a process of this machine instead of a pod. It needs no image, and it is
// ready before the node.
func (c *Cluster) startDNS(ctx context.Context) error {
	if err := c.grantDNSAccess(ctx); err != nil {
		return err
	}
	path := filepath.Join(c.dir, "Corefile")
	content := fmt.Sprintf(corefileTemplate, clusterDomain, bridgeIP, c.kubeconfigFile("coredns"))
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of CoreDNS: %w", err)
	}
	if err := c.startProgram(program{
		Name: "coredns",
		Path: c.binaries.coredns,
		Args: []string{"-conf=" + path},
	}); err != nil {
		return err
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(bridgeIP, "53"))
	}}
	return c.waitUntilReady(ctx, "coredns", startTimeout, func(ctx context.Context) error {
		addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+clusterDomain+".")
		if err != nil {
			return err
		}
		if !slices.Contains(addresses, apiServiceIP) {
			return fmt.Errorf("kubernetes.default is at %v, not at %s", addresses, apiServiceIP)
		}
		return nil
	})
}

// grantDNSAccess grants CoreDNS the permissions of its kubernetes plugin.
func (c *Cluster) grantDNSAccess(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	watch := []string{"list", "watch"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: dnsUser},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services", "pods", "namespaces"}, Verbs: watch},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: watch},
		},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("granting permissions to CoreDNS: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: dnsUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: dnsUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: dnsUser}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("granting permissions to CoreDNS: %w", err)
	}
	return nil
}
