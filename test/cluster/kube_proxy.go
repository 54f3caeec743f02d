package cluster

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// proxyHealthPort reports whether the rules are installed. Both ports are the defaults of
	// Kubernetes.
	proxyHealthPort  = 10256
	proxyMetricsPort = 10249
)

// startKubeProxy starts kube-proxy. It routes the addresses of Services for pods and for processes
// of the node, so that the API server reaches a webhook by its Service.
func (c *Cluster) startKubeProxy(ctx context.Context, n realNode) error {
	config, err := n.writeConfigFile("kube-proxy.yaml", map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": c.kubeconfigFile("kube-proxy")},
		"hostnameOverride":   n.name(),
		"bindAddress":        n.ip(),
		"healthzBindAddress": net.JoinHostPort(n.ip(), strconv.Itoa(proxyHealthPort)),
		"metricsBindAddress": net.JoinHostPort(n.ip(), strconv.Itoa(proxyMetricsPort)),
		"mode":               "iptables",
		"clusterCIDR":        podCIDR,
		"nodePortAddresses":  []string{"primary"},
		"iptables": map[string]any{
			// Pods share one bridge. Without masquerading, the response of a Service's pod would go
			// directly to the client pod, with an unexpected source address. Not every kernel can
			// filter bridged packets to prevent that.
			"masqueradeAll":      true,
			"localhostNodePorts": false,
			// Tests wait for every change. The default of 1 s is for large clusters.
			"minSyncPeriod": "20ms",
		},
		// Keep the connection tracking settings of the machine, which may not be writable.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
	if err != nil {
		return err
	}
	if err := c.startProgram(n.program("kube-proxy", c.binaries.kubernetes, []string{"--config=" + config})); err != nil {
		return err
	}
	return c.waitForKubeProxy(ctx, n)
}

func (c *Cluster) waitForKubeProxy(ctx context.Context, n realNode) error {
	return c.waitForHealth(ctx, n, "kube-proxy", proxyHealthPort, "/livez")
}

// waitForHealth waits until a program of a node reports its health at a path of a port.
func (c *Cluster) waitForHealth(ctx context.Context, n realNode, component string, port int, path string) error {
	client := &http.Client{Timeout: time.Second}
	health := "http://" + net.JoinHostPort(n.ip(), strconv.Itoa(port)) + path
	return c.waitUntilReady(ctx, n.component(component), startTimeout, func(ctx context.Context) error {
		return checkHealth(ctx, client, health)
	})
}
