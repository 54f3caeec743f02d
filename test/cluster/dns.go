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

// dnsUser is whom CoreDNS is to the API server.
const dnsUser = "rollcall-test-coredns"

// corefile answers for the cluster's names and says of every other that it does not exist: a test must not depend on
// what the world's DNS says, and a refusal would make resolvers try again. Nothing is cached, so that a name is there
// as soon as the pod is.
const corefile = `%[1]s in-addr.arpa {
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

// startDNS runs CoreDNS on this machine instead of in a pod: one image less to make, and it is there before the node.
func (c *Cluster) startDNS(ctx context.Context) error {
	if err := c.permitDNS(ctx); err != nil {
		return err
	}
	path := filepath.Join(c.dir, "Corefile")
	content := fmt.Sprintf(corefile, clusterDomain, bridgeIP, c.kubeconfigOf("coredns"))
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of CoreDNS: %w", err)
	}
	if err := c.start(program{name: "coredns", path: c.bin.coredns, args: []string{"-conf=" + path}}); err != nil {
		return err
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(bridgeIP, "53"))
	}}
	return c.await(ctx, "coredns", startLimit, func(ctx context.Context) error {
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

// permitDNS gives CoreDNS the rights that its kubernetes plugin asks for.
func (c *Cluster) permitDNS(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
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
		return fmt.Errorf("giving CoreDNS its rights: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: dnsUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: dnsUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: dnsUser}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("giving CoreDNS its rights: %w", err)
	}
	return nil
}
