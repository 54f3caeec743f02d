package cluster

import (
	"context"
	"strings"
)

var kueueOperator = operator{
	component: component{
		name: "kueue", module: "sigs.k8s.io/kueue", mainPackage: ".",
	},
	manifests: operatorManifests,
	config: `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
integrations: {frameworks: [batch/job]}
`,
	// The program has only the integration for Jobs.
	editWebhook: func(_ map[string]any, path string) bool {
		return strings.Contains(path, "-kueue-x-k8s-io-") || strings.HasSuffix(path, "-batch-v1-job")
	},
}

// StartKueue runs Kueue for plain Jobs as a process of this machine, and returns when it is ready.
// The first call builds Kueue. It installs the CustomResourceDefinitions and webhooks of Kueue's
// manifests, with the webhooks called by URL. Kueue stops with the cluster. Lines are added to its configuration.
func (c *Cluster) StartKueue(ctx context.Context, lines ...string) error {
	o := kueueOperator
	o.config += strings.Join(lines, "\n")
	return c.startOperator(ctx, o)
}
