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
	// nodeName is the name of the one real node.
	nodeName = "rollcall-test"
	// kubeletPort is where the API server asks for logs and for commands to be run. It is Kubernetes' usual one.
	kubeletPort = 10250
	// maxPods is limited by the machine's memory long before.
	maxPods = 500
)

// startNode makes this machine a node: container runtime, kubelet, service proxy and DNS.
func (c *Cluster) startNode(ctx context.Context) error {
	ca := &authority{dir: c.pkiDir(), name: "ca"}
	steps := []struct {
		what string
		step func(context.Context) error
	}{
		{"containerd", c.startContainerd},
		{"coredns", c.startDNS},
		{"pause image", func(ctx context.Context) error {
			pause, err := pauseBinary()
			if err != nil {
				return err
			}
			_, err = c.LoadImage(ctx, pause)
			return err
		}},
		{"kubelet", func(ctx context.Context) error { return c.startKubelet(ctx, ca) }},
		// After the node is there: it waits half a minute for it, and ends when its address changes from none to one.
		{"kube-proxy", c.startProxy},
	}
	for _, s := range steps {
		if err := c.progress.do(s.what, func() error { return s.step(ctx) }); err != nil {
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
	if err := c.start(program{name: "kubelet", path: c.bin.kubernetes, args: []string{
		"--config=" + config,
		"--kubeconfig=" + c.kubeconfigOf("kubelet"),
		"--root-dir=" + root,
		"--cert-dir=" + filepath.Join(root, "pki"),
		"--hostname-override=" + nodeName,
		"--node-ip=" + bridgeIP,
	}}); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return c.await(ctx, "kubelet", startLimit, func(ctx context.Context) error {
		return nodesReady(ctx, client, 1)
	})
}

// configureKubelet writes the kubelet's configuration and returns its path.
func (c *Cluster) configureKubelet(ca *authority, root string) (string, error) {
	// What the pods' resolv.conf is made of. Ours is empty: no name outside of the cluster shall be asked for.
	resolv := filepath.Join(c.dir, "resolv.conf")
	if err := os.WriteFile(resolv, nil, 0o600); err != nil {
		return "", fmt.Errorf("writing resolv.conf: %w", err)
	}
	return c.writeConfig("kubelet.yaml", map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"address":                  bridgeIP,
		"port":                     kubeletPort,
		"healthzPort":              0,
		"tlsCertFile":              ca.certFile("kubelet"),
		"tlsPrivateKeyFile":        ca.keyFile("kubelet"),
		"authentication":           map[string]any{"anonymous": map[string]any{"enabled": false}, "x509": map[string]any{"clientCAFile": ca.certFile(ca.name)}},
		"authorization":            map[string]any{"mode": "Webhook"},
		"clusterDNS":               []string{bridgeIP},
		"clusterDomain":            clusterDomain,
		"resolvConf":               resolv,
		"containerRuntimeEndpoint": "unix://" + containerdSocket(c.dir),
		"podLogsDir":               filepath.Join(c.dir, "pods"),
		"volumePluginDir":          filepath.Join(root, "volume-plugins"),
		"maxPods":                  maxPods,
		// Machines of continuous integration often still have version 1, and no systemd to drive it.
		"failCgroupV1":           false,
		"cgroupDriver":           "cgroupfs",
		"enforceNodeAllocatable": []string{},
		"failSwapOn":             false,
		// kube-proxy's rules do for this node.
		"makeIPTablesUtilChains": false,
		// There is no registry to get an image from again, and a developer's disk is always nearly full: so no image is
		// removed and no pod evicted for the disk's sake.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{
			"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"featureGates": c.options.FeatureGates,
	})
}

// writeConfig writes a component's configuration into the cluster's folder and returns its path.
func (c *Cluster) writeConfig(name string, config map[string]any) (string, error) {
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
