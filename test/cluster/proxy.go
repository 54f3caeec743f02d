package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// proxyHealthPort is where kube-proxy says that its rules are in place. Both are Kubernetes' usual ones.
	proxyHealthPort  = 10256
	proxyMetricsPort = 10249
)

// startProxy starts kube-proxy, which makes Services' addresses work, for pods and for this machine's own processes: so
// the API server reaches a webhook by its Service.
func (c *Cluster) startProxy(ctx context.Context) error {
	config, err := c.writeConfig("kube-proxy.yaml", map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": c.kubeconfigOf("kube-proxy")},
		"hostnameOverride":   nodeName,
		"bindAddress":        bridgeIP,
		"healthzBindAddress": net.JoinHostPort(bridgeIP, strconv.Itoa(proxyHealthPort)),
		"metricsBindAddress": net.JoinHostPort(bridgeIP, strconv.Itoa(proxyMetricsPort)),
		"mode":               "iptables",
		"clusterCIDR":        podCIDR,
		"nodePortAddresses":  []string{"primary"},
		"iptables": map[string]any{
			// Pods share one bridge. Without this the answer of a Service's pod would go straight to the asking pod, from an
			// address which that one never asked, unless the kernel filters bridged packets; not every kernel can.
			"masqueradeAll":      true,
			"localhostNodePorts": false,
			// A test waits for every change. The default, which zero stands for, is 1 s and is for large clusters.
			"minSyncPeriod": "20ms",
		},
		// Leave the machine's connection tracking as it is: it may not be ours to change.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
	if err != nil {
		return err
	}
	if err := c.start(program{name: "kube-proxy", path: c.bin.kubernetes, args: []string{"--config=" + config}}); err != nil {
		return err
	}
	client := &http.Client{Timeout: time.Second}
	health := fmt.Sprintf("http://%s/livez", net.JoinHostPort(bridgeIP, strconv.Itoa(proxyHealthPort)))
	return c.await(ctx, "kube-proxy", startLimit, func(ctx context.Context) error {
		return probeHealth(ctx, client, health)
	})
}
