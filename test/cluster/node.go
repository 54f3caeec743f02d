package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	// nodeName is the name of the first real node.
	nodeName = "rollcall-test"
	// kubeletPort is the port for logs and exec. It is the default of Kubernetes.
	kubeletPort = 10250
	// maxPods is higher than the memory of the machine permits.
	maxPods = 500
)

// startNode starts the programs of a node: container runtime, kubelet and kube-proxy, DNS on the first
// node, and what enforces NetworkPolicies.
func (c *Cluster) startNode(ctx context.Context, n realNode) error {
	steps := []struct {
		what string
		step func(context.Context, realNode) error
	}{
		{containerdName, c.startContainerd},
		{"coredns", func(ctx context.Context, _ realNode) error { return c.startDNS(ctx) }},
		{"pause image", c.loadPauseImage},
		{"kubelet", c.startKubelet},
		// kube-proxy starts after the node exists. Otherwise it would wait half a minute for it,
		// and exit when the node gets an address.
		{"kube-proxy", c.startKubeProxy},
		{networkPolicyAgentName, c.startNetworkPolicyAgent},
	}
	for _, s := range steps {
		if s.what == "coredns" && !n.isMachine() || s.what == networkPolicyAgentName && c.state.NetworkPolicyAgent == "" {
			continue
		}
		if err := c.progress.runStep(n.component(s.what), func() error { return s.step(ctx, n) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) loadPauseImage(ctx context.Context, n realNode) error {
	pause, err := newPauseBinary()
	if err != nil {
		return err
	}
	image, err := pause.Build(ctx, c.progress)
	if err != nil {
		return err
	}
	return c.loadImageInto(ctx, n, image)
}

// issueKubeletCertificate creates the certificate and the kubeconfig of the node's kubelet.
func (c *Cluster) issueKubeletCertificate(ca *authority, n realNode) error {
	name := n.component("kubelet")
	if err := ca.issueCertificate(identity{
		name: name, user: "system:node:" + n.name(), groups: []string{"system:nodes"}, hosts: []string{n.ip(), n.name()},
	}); err != nil {
		return err
	}
	return ca.writeKubeconfig(c.kubeconfigFile(name), c.state.Server, name)
}

// startKubelet starts the kubelet and waits until its node is ready.
func (c *Cluster) startKubelet(ctx context.Context, n realNode) error {
	root := filepath.Join(n.dir(), "kubelet")
	config, err := c.configureKubelet(n, root)
	if err != nil {
		return err
	}
	args := []string{
		"--config=" + config,
		"--kubeconfig=" + c.kubeconfigFile(n.component("kubelet")),
		"--root-dir=" + root,
		"--cert-dir=" + filepath.Join(root, "pki"),
		"--hostname-override=" + n.name(),
		"--node-ip=" + n.ip(),
	}
	if labels := c.options.NodeLabels; n.number <= len(labels) {
		args = append(args, "--node-labels="+labels[n.number-1])
	}
	if err := c.startProgram(n.program("kubelet", c.binaries.kubernetes, args)); err != nil {
		return err
	}
	return c.waitForKubelet(ctx, n)
}

// waitForKubelet waits until the kubelet listens and its node is ready. A node that stopped for less than
// the grace period of Kubernetes was ready all the time.
func (c *Cluster) waitForKubelet(ctx context.Context, n realNode) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	return c.waitUntilReady(ctx, n.component("kubelet"), startTimeout, func(ctx context.Context) error {
		dialer := net.Dialer{Timeout: time.Second}
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(n.ip(), strconv.Itoa(kubeletPort)))
		if err != nil {
			return err
		}
		if err := connection.Close(); err != nil {
			return err
		}
		return checkNodeReady(ctx, client, n.name())
	})
}

// configureKubelet writes the configuration of the kubelet and returns its path.
func (c *Cluster) configureKubelet(n realNode, root string) (string, error) {
	ca := &authority{dir: c.pkiDir(), name: "ca"}
	// The kubelet derives the resolv.conf of pods from this file. It is empty, so that pods do not
	// resolve external names.
	resolv := filepath.Join(n.dir(), "resolv.conf")
	if err := os.WriteFile(resolv, nil, 0o600); err != nil {
		return "", fmt.Errorf("writing resolv.conf: %w", err)
	}
	return n.writeConfigFile("kubelet.yaml", map[string]any{
		"apiVersion":        "kubelet.config.k8s.io/v1beta1",
		"kind":              "KubeletConfiguration",
		"address":           n.ip(),
		"port":              kubeletPort,
		"healthzPort":       0,
		"tlsCertFile":       ca.certFile(n.component("kubelet")),
		"tlsPrivateKeyFile": ca.keyFile(n.component("kubelet")),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"x509":      map[string]any{"clientCAFile": ca.certFile(ca.name)},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"clusterDNS":               []string{bridgeIP},
		"clusterDomain":            clusterDomain,
		"resolvConf":               resolv,
		"containerRuntimeEndpoint": "unix://" + containerdSocket(n.dir()),
		"podLogsDir":               filepath.Join(n.dir(), "pods"),
		"volumePluginDir":          filepath.Join(root, "volume-plugins"),
		"maxPods":                  maxPods,
		// CI machines often have cgroup v1 without systemd.
		"failCgroupV1":           false,
		"cgroupDriver":           "cgroupfs",
		"cgroupRoot":             filepath.Join("/", n.cgroup()),
		"enforceNodeAllocatable": []string{},
		"failSwapOn":             false,
		// The rules of kube-proxy are sufficient for this node.
		"makeIPTablesUtilChains": false,
		// There is no registry to pull images again, and disks of developers are often almost full.
		// So the kubelet must not remove images or evict pods because of the disk.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{
			"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"featureGates": c.options.FeatureGates,
	})
}

// writeConfigFile writes the configuration of a component to the directory of the node and
// returns its path.
func (n realNode) writeConfigFile(name string, config map[string]any) (string, error) {
	data, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", name, err)
	}
	path := filepath.Join(n.dir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}
