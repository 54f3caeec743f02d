package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	// nodeName is the name of the only real node.
	nodeName = "rollcall-test"
	// kubeletPort is the port for logs and exec. It is the default of Kubernetes.
	kubeletPort = 10250
	// maxPods is higher than the memory of the machine permits.
	maxPods = 500
)

// startNode makes this machine a node: container runtime, kubelet, kube-proxy and DNS.
func (c *Cluster) startNode(ctx context.Context) error {
	ca := &authority{dir: c.pkiDir(), name: "ca"}
	steps := []struct {
		what string
		step func(context.Context) error
	}{
		{"containerd", c.startContainerd},
		{"coredns", c.startDNS},
		{"pause image", func(ctx context.Context) error {
			pause, err := newPauseBinary()
			if err != nil {
				return err
			}
			_, err = c.LoadImage(ctx, pause)
			return err
		}},
		{"kubelet", func(ctx context.Context) error { return c.startKubelet(ctx, ca) }},
		// kube-proxy starts after the node exists. Otherwise it would wait half a minute for it,
		// and exit when the node gets an address.
		{"kube-proxy", c.startKubeProxy},
	}
	for _, s := range steps {
		if err := c.progress.runStep(s.what, func() error { return s.step(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// startKubelet starts the kubelet and waits until its node is ready.
func (c *Cluster) startKubelet(ctx context.Context, ca *authority) error {
	root := filepath.Join(c.dir, "kubelet")
	config, err := c.configureKubelet(ca, root)
	if err != nil {
		return err
	}
	if err := c.startProgram(program{name: "kubelet", path: c.binaries.kubernetes, args: []string{
		"--config=" + config,
		"--kubeconfig=" + c.kubeconfigFile("kubelet"),
		"--root-dir=" + root,
		"--cert-dir=" + filepath.Join(root, "pki"),
		"--hostname-override=" + nodeName,
		"--node-ip=" + bridgeIP,
	}}); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	return c.waitUntilReady(ctx, "kubelet", startTimeout, func(ctx context.Context) error {
		return checkNodesReady(ctx, client, 1)
	})
}

// configureKubelet writes the configuration of the kubelet and returns its path.
func (c *Cluster) configureKubelet(ca *authority, root string) (string, error) {
	// The kubelet derives the resolv.conf of pods from this file. It is empty, so that pods do not
	// resolve external names.
	resolv := filepath.Join(c.dir, "resolv.conf")
	if err := os.WriteFile(resolv, nil, 0o600); err != nil {
		return "", fmt.Errorf("writing resolv.conf: %w", err)
	}
	return c.writeConfigFile("kubelet.yaml", map[string]any{
		"apiVersion":        "kubelet.config.k8s.io/v1beta1",
		"kind":              "KubeletConfiguration",
		"address":           bridgeIP,
		"port":              kubeletPort,
		"healthzPort":       0,
		"tlsCertFile":       ca.certFile("kubelet"),
		"tlsPrivateKeyFile": ca.keyFile("kubelet"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"x509":      map[string]any{"clientCAFile": ca.certFile(ca.name)},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"clusterDNS":               []string{bridgeIP},
		"clusterDomain":            clusterDomain,
		"resolvConf":               resolv,
		"containerRuntimeEndpoint": "unix://" + containerdSocket(c.dir),
		"podLogsDir":               filepath.Join(c.dir, "pods"),
		"volumePluginDir":          filepath.Join(root, "volume-plugins"),
		"maxPods":                  maxPods,
		// CI machines often have cgroup v1 without systemd.
		"failCgroupV1":           false,
		"cgroupDriver":           "cgroupfs",
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

// writeConfigFile writes the configuration of a component to the directory of the cluster and
// returns its path.
func (c *Cluster) writeConfigFile(name string, config map[string]any) (string, error) {
	data, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", name, err)
	}
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}
