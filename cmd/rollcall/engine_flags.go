package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// engineFlags are the flags of commands that run the injection engine without a cluster.
type engineFlags struct {
	namespace         string
	clusterDomain     string
	kubernetesVersion string
	agentImage        string
}

func (e *engineFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&e.namespace, "namespace", "n", "default", "namespace of objects that do not specify one")
	e.addConfigFlags(cmd)
}

// addFlagsWithCluster adds the flags of a command that can also read a cluster. The namespace is then that of the
// cluster.
func (e *engineFlags) addFlagsWithCluster(cmd *cobra.Command, cluster *clusterFlags) {
	cluster.addFlags(cmd)
	cmd.Flags().Lookup("namespace").Usage =
		"namespace of objects that do not specify one (default: default; in a cluster, the namespace of the context)"
	e.addConfigFlags(cmd)
}

// Flags of a command that reads either manifests or a cluster, which the other does not use.
var (
	engineFlagNames  = []string{"cluster-domain", "agent-image", "kubernetes-version"}
	clusterFlagNames = []string{"kubeconfig", "context"}
)

// rejectFlags returns an error with a reason if one of the flags is set.
func rejectFlags(cmd *cobra.Command, names []string, reason string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return newUsageError(fmt.Errorf("--%s: %s", name, reason))
		}
	}
	return nil
}

// addConfigFlags adds the flags of the configuration of the webhook.
func (e *engineFlags) addConfigFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.clusterDomain, "cluster-domain", gang.DefaultClusterDomain, "DNS domain of the cluster")
	f.StringVar(&e.agentImage, "agent-image", "",
		"image of the manager of the cluster, which contains the agent for gangs without ssh (default: a placeholder)")
	f.StringVar(&e.kubernetesVersion, "kubernetes-version", "",
		"version of the cluster, such as 1.34 (default: the newest that Rollcall supports)")
}

// newEngine returns an engine with the built-in injectors. The error reports an invalid version.
func (e *engineFlags) newEngine() (*injectors.Engine, error) {
	config := gang.Config{ClusterDomain: e.clusterDomain, AgentImage: e.agentImage}
	if e.kubernetesVersion != "" {
		if err := gang.ValidateKubernetesVersion(e.kubernetesVersion); err != nil {
			return nil, fmt.Errorf("--kubernetes-version: %w", err)
		}
		supported, err := gang.SupportsContainerRestartRules(e.kubernetesVersion)
		if err != nil {
			return nil, err
		}
		config.DisableContainerRestartRules = !supported
	}
	return injectors.NewEngine(injectors.Builtin(), config), nil
}
