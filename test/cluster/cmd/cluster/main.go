// Command cluster starts, uses and stops a real Kubernetes cluster on this machine. See package
// rollcall.training/test/cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rollcall.training/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// clusterRef identifies the cluster of a command.
type clusterRef struct{ name string }

func (n *clusterRef) attachCluster() (*cluster.Cluster, error) { return cluster.Attach(n.name) }

func newRootCommand() *cobra.Command {
	target := &clusterRef{}
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Start, use and stop a real Kubernetes cluster on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&target.name, "name", "default", "name of the cluster")
	root.AddCommand(
		newBuildCommand(),
		newUpCommand(target),
		newDownCommand(target),
		newStatusCommand(),
		newLogsCommand(target),
		newNodeCommand(target),
		newPodCommand(target),
		newLoadImageCommand(target),
		newImageCommand(),
		newKubeconfigCommand(target),
		newEnvCommand(target),
		newKubectlCommand(target),
		newHelmCommand(target),
		newCleanCommand(),
	)
	return root
}

// addReleaseFlag adds the flag for the Kubernetes release.
func addReleaseFlag(command *cobra.Command, release *string) {
	command.Flags().StringVar(release, "kubernetes", "", fmt.Sprintf(
		"Kubernetes release: %s, %s for the oldest supported release, or a version (default the value of %s, or %s)",
		cluster.Latest, cluster.OldestSupported, cluster.ReleaseEnv, cluster.Latest))
}

func newBuildCommand() *cobra.Command {
	var options cluster.Options
	var nodes, release string
	build := &cobra.Command{
		Use:   "build",
		Short: "Build the components of a cluster without starting it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Nodes, options.Release = cluster.NodeKind(nodes), cluster.Release(release)
			return cluster.Build(cmd.Context(), options, cluster.Helm, cluster.Kueue)
		},
	}
	build.Flags().StringVar(&nodes, "nodes", string(cluster.Kwok), "kind of nodes: none, kwok or real")
	addReleaseFlag(build, &release)
	return build
}

func newUpCommand(target *clusterRef) *cobra.Command {
	var options cluster.Options
	var nodes, release string
	up := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster that runs until it is stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Name, options.Nodes, options.Detached = target.name, cluster.NodeKind(nodes), true
			options.Release = cluster.Release(release)
			c, err := cluster.Up(cmd.Context(), options)
			if err != nil {
				return err
			}
			cmd.PrintErrf("The cluster is ready. To use it with kubectl and tests:  eval \"$(cluster env --name %s)\"\n",
				target.name)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), c.Kubeconfig())
			return err
		},
	}
	flags := up.Flags()
	flags.StringVar(
		&nodes, "nodes", string(cluster.NoNodes), "kind of nodes: none, kwok (simulated), or real (this machine; needs root)",
	)
	addReleaseFlag(up, &release)
	flags.IntVar(&options.KwokNodes, "kwok-nodes", 0, "number of simulated nodes (default 10 with --nodes kwok)")
	flags.IntVar(&options.RealNodes, "count", 0, "number of real nodes (default 1 with --nodes real)")
	flags.StringArrayVar(&options.NodeLabels, "node-labels", nil, "labels of a real node, for example "+
		"topology.kubernetes.io/zone=a,example.com/rack=r1 (repeatable: the first is for the first node)")
	flags.IntVar(&options.Port, "port", 0, "port of the API server (default a free one)")
	flags.StringArrayVar(
		&options.APIServerFlags, "apiserver-flag", nil, "additional flag of kube-apiserver, for example --v=4 (repeatable)",
	)
	flags.StringArrayVar(
		&options.ControllerManagerFlags, "controller-manager-flag", nil,
		"additional flag of kube-controller-manager (repeatable)",
	)
	return up
}

func newDownCommand(target *clusterRef) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster, or remove the leftovers of crashed clusters if it is not running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			running, err := cluster.List()
			if err != nil {
				return err
			}
			for _, found := range running {
				if found.Name == target.name && found.Running {
					return cluster.Down(cmd.Context(), target.name, cmd.ErrOrStderr())
				}
			}
			cmd.PrintErrf("cluster %s is not running\n", target.name)
			return cluster.Clean(cmd.ErrOrStderr())
		},
	}
}

func newCleanCommand() *cobra.Command {
	var everything bool
	clean := &cobra.Command{
		Use:   "clean",
		Short: "Remove the leftovers of crashed clusters: processes, containers, mounts, network, files",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cluster.Clean(cmd.ErrOrStderr()); err != nil || !everything {
				return err
			}
			return cluster.Purge(cmd.ErrOrStderr())
		},
	}
	clean.Flags().BoolVar(&everything, "cache", false, "also remove the cached programs, images and logs")
	return clean
}
