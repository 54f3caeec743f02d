package cluster

import (
	"context"
	"strings"
)

var jobSetOperator = operator{
	component: component{
		name: "jobset", module: "sigs.k8s.io/jobset", mainPackage: "sigs.k8s.io/jobset",
	},
	manifests: operatorManifests,
	config: `apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
`,
	// config/components/webhook/patches of JobSet limits the webhooks of pods to the pods of JobSets.
	editWebhook: func(webhook map[string]any, path string) bool {
		if strings.HasSuffix(path, "-v1-pod") {
			webhook["objectSelector"] = map[string]any{"matchExpressions": []any{
				map[string]any{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"},
			}}
		}
		return true
	},
}

// StartJobSet runs JobSet as a process of this machine, as [Cluster.StartKueue] runs Kueue.
func (c *Cluster) StartJobSet(ctx context.Context) error { return c.startOperator(ctx, jobSetOperator) }
