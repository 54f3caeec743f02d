package cluster

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// serviceCIDR is the range of Services. podCIDR and serviceCIDR are the halves of
	// 198.18.0.0/15, which RFC 2544 reserves for tests of networks. Unlike private ranges, it is
	// unlikely to be in use in a developer's network.
	serviceCIDR = "198.19.0.0/16"
	// apiServiceIP is the first address of serviceCIDR. The API server assigns it to the Service
	// kubernetes.default.
	apiServiceIP = "198.19.0.1"
	// clusterDomain is the default of Kubernetes.
	clusterDomain        = "cluster.local"
	serviceAccountIssuer = "https://kubernetes.default.svc." + clusterDomain
)

// clientRateFlags raise the rate limits of the controllers, which protect clusters of many tenants.
// Otherwise tests of large gangs would measure these limits.
var clientRateFlags = []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}

// startControlPlane starts etcd, the API server, the controllers and the scheduler.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	ports, err := FindFreePorts(loopback, 3)
	if err != nil {
		return err
	}
	port := c.options.Port
	if port == 0 {
		port = ports[0]
	}
	if err := checkPortFree(c.HostIP(), port, "the API server"); err != nil {
		return err
	}
	c.state.Server = "https://" + net.JoinHostPort(c.HostIP(), strconv.Itoa(port))
	ca, etcdCA, err := c.createPKI()
	if err != nil {
		return err
	}
	if err := c.progress.runStep("etcd", func() error {
		return c.startEtcd(ctx, etcdCA, ports[1], ports[2])
	}); err != nil {
		return err
	}
	if err := c.progress.runStep("kube-apiserver", func() error {
		return c.startAPIServer(ctx, ca, etcdCA, port, ports[1])
	}); err != nil {
		return err
	}
	return c.progress.runStep("kube-controller-manager, kube-scheduler", func() error {
		return c.startControllersAndScheduler(ctx, ca)
	})
}

// createPKI creates all keys, certificates and kubeconfigs.
func (c *Cluster) createPKI() (ca, etcdCA *authority, err error) {
	if etcdCA, err = newAuthority(c.pkiDir(), "etcd-ca"); err != nil {
		return nil, nil, err
	}
	for _, id := range []identity{
		{name: "etcd-server", user: "etcd", hosts: []string{loopback, "localhost"}},
		{name: "etcd-client", user: "kube-apiserver"},
	} {
		if err := etcdCA.issueCertificate(id); err != nil {
			return nil, nil, err
		}
	}
	if ca, err = newAuthority(c.pkiDir(), "ca"); err != nil {
		return nil, nil, err
	}
	if _, err := createKey(c.pkiDir(), "service-accounts"); err != nil {
		return nil, nil, err
	}
	masters := []string{"system:masters"}
	servers := []identity{
		{name: "kube-apiserver", user: "kube-apiserver", hosts: []string{
			loopback, "localhost", bridgeIP, apiServiceIP,
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain,
		}},
		{name: "kubelet-client", user: "kube-apiserver-kubelet-client", groups: masters},
	}
	clients := []identity{
		{name: "admin", user: "rollcall-test-admin", groups: masters},
		{name: "kube-controller-manager", user: "system:kube-controller-manager"},
		{name: "kube-scheduler", user: "system:kube-scheduler"},
	}
	switch c.options.Nodes {
	case Kwok:
		clients = append(clients, identity{name: "kwok", user: "kwok", groups: masters})
	case Real:
		clients = append(clients,
			identity{name: "kube-proxy", user: "system:kube-proxy"},
			identity{name: "coredns", user: dnsUser})
	}
	for _, id := range slices.Concat(servers, clients) {
		if err := ca.issueCertificate(id); err != nil {
			return nil, nil, err
		}
	}
	for _, id := range clients {
		if err := ca.writeKubeconfig(c.kubeconfigFile(id.name), c.state.Server, id.name); err != nil {
			return nil, nil, err
		}
	}
	return ca, etcdCA, ca.writeKubeconfig(c.Kubeconfig(), c.state.Server, "admin")
}

func (c *Cluster) startAPIServer(ctx context.Context, ca, etcdCA *authority, port, etcdPort int) error {
	reconciler := "none" // an endpoint on the loopback address is invalid, and only real pods need it
	if c.options.Nodes == Real {
		reconciler = "lease"
	}
	args := []string{
		"--etcd-servers=https://" + net.JoinHostPort(loopback, strconv.Itoa(etcdPort)),
		"--etcd-cafile=" + etcdCA.certFile(etcdCA.name),
		"--etcd-certfile=" + etcdCA.certFile("etcd-client"),
		"--etcd-keyfile=" + etcdCA.keyFile("etcd-client"),
		"--bind-address=" + c.HostIP(),
		"--advertise-address=" + c.HostIP(),
		"--secure-port=" + strconv.Itoa(port),
		"--endpoint-reconciler-type=" + reconciler,
		"--tls-cert-file=" + ca.certFile("kube-apiserver"),
		"--tls-private-key-file=" + ca.keyFile("kube-apiserver"),
		"--client-ca-file=" + ca.certFile(ca.name),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged",
		"--service-cluster-ip-range=" + serviceCIDR,
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-key-file=" + ca.keyFile("service-accounts"),
		"--service-account-signing-key-file=" + ca.keyFile("service-accounts"),
		"--kubelet-client-certificate=" + ca.certFile("kubelet-client"),
		"--kubelet-client-key=" + ca.keyFile("kubelet-client"),
		"--kubelet-certificate-authority=" + ca.certFile(ca.name),
		// The name of the node is not in DNS.
		"--kubelet-preferred-address-types=InternalIP",
	}
	if c.options.Nodes != Real {
		// Without kube-proxy, the addresses of Services are not routed, and calls of webhooks would
		// leave the machine through the default route. With this flag, the API server calls the
		// endpoints directly. There are none.
		args = append(args, "--enable-aggregator-routing")
	}
	args = slices.Concat(args, c.featureGateFlags(), c.options.APIServerFlags)
	if err := c.startProgram(program{
		Name:        "kube-apiserver",
		Path:        c.binaries.controlPlaneProgram("kube-apiserver"),
		Args:        args,
		MemoryLimit: c.options.APIServerMemoryLimit,
	}); err != nil {
		return err
	}
	if err := c.loadConfig(); err != nil {
		return err
	}
	return c.waitForAPIServer(ctx, startTimeout)
}

// waitForAPIServer waits until the API server is ready.
func (c *Cluster) waitForAPIServer(ctx context.Context, limit time.Duration) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	return c.waitUntilReady(ctx, "kube-apiserver", limit, func(ctx context.Context) error {
		var code int
		result := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
		if err := result.Error(); err != nil {
			return err
		}
		if code != http.StatusOK {
			return fmt.Errorf("/readyz returned status %d", code)
		}
		return nil
	})
}

func (c *Cluster) startControllersAndScheduler(ctx context.Context, ca *authority) error {
	args := slices.Concat([]string{
		"--kubeconfig=" + c.kubeconfigFile("kube-controller-manager"),
		"--root-ca-file=" + ca.certFile(ca.name),
		"--service-account-private-key-file=" + ca.keyFile("service-accounts"),
		"--use-service-account-credentials",
		"--cluster-signing-cert-file=" + ca.certFile(ca.name),
		"--cluster-signing-key-file=" + ca.keyFile(ca.name),
		"--leader-elect=false",
		"--secure-port=0",
	}, clientRateFlags, c.featureGateFlags(), c.options.ControllerManagerFlags)
	if err := c.startProgram(program{
		Name: "kube-controller-manager",
		Path: c.binaries.controlPlaneProgram("kube-controller-manager"),
		Args: args,
	}); err != nil {
		return err
	}
	args = slices.Concat([]string{
		"--kubeconfig=" + c.kubeconfigFile("kube-scheduler"),
		"--leader-elect=false",
		"--secure-port=0",
	}, clientRateFlags, c.featureGateFlags(), c.options.SchedulerFlags)
	if err := c.startProgram(program{
		Name: "kube-scheduler",
		Path: c.binaries.controlPlaneProgram("kube-scheduler"),
		Args: args,
	}); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	// Until a namespace has its default ServiceAccount, the API server rejects every pod in it.
	return c.waitUntilReady(ctx, "kube-controller-manager", startTimeout, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// featureGateFlags returns the flag for Options.FeatureGates, or nil.
func (c *Cluster) featureGateFlags() []string {
	var gates []string
	for _, name := range slices.Sorted(maps.Keys(c.options.FeatureGates)) {
		gates = append(gates, fmt.Sprintf("%s=%t", name, c.options.FeatureGates[name]))
	}
	if len(gates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(gates, ",")}
}

// linkKubectl links kubectl into the directory bin of the cluster.
func (c *Cluster) linkKubectl() error {
	link := filepath.Join(c.dir, "bin", "kubectl")
	if err := replaceSymlink(c.binaries.controlPlaneProgram("kubectl"), link); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	return nil
}
