// Command cluster starts, uses and stops a real Kubernetes cluster on this machine. See the package rollcall.training/test/cluster.
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
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// named is what all commands on one cluster share.
type named struct{ name string }

func (n *named) attach() (*cluster.Cluster, error) { return cluster.Attach(n.name) }

func command() *cobra.Command {
	target := &named{}
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Start, use and stop a real Kubernetes cluster on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&target.name, "name", "default", "name of the cluster")
	root.AddCommand(buildCommand(), upCommand(target), downCommand(target), statusCommand(), logsCommand(target), loadImageCommand(target),
		imageCommand(), kubeconfigCommand(target), envCommand(target), kubectlCommand(target), helmCommand(target), cleanCommand())
	return root
}

// releaseFlag adds the flag that chooses the Kubernetes to run.
func releaseFlag(command *cobra.Command, release *string) {
	command.Flags().StringVar(release, "kubernetes", "", fmt.Sprintf("which Kubernetes: %s, or %s, the oldest that is supported (default what %s says, else %s)",
		cluster.Newest, cluster.Floor, cluster.ReleaseEnv, cluster.Newest))
}

func buildCommand() *cobra.Command {
	var options cluster.Options
	var nodes, release string
	build := &cobra.Command{
		Use:   "build",
		Short: "Build what clusters need, minutes the first time, and start none",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Nodes, options.Release = cluster.Nodes(nodes), cluster.Release(release)
			return cluster.Build(cmd.Context(), options)
		},
	}
	build.Flags().StringVar(&nodes, "nodes", string(cluster.Kwok), "kind of nodes: none, kwok or real")
	releaseFlag(build, &release)
	return build
}

func upCommand(target *named) *cobra.Command {
	var options cluster.Options
	var nodes, release string
	up := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, which runs until it is stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Name, options.Nodes, options.Detached = target.name, cluster.Nodes(nodes), true
			options.Release = cluster.Release(release)
			c, err := cluster.Up(cmd.Context(), options)
			if err != nil {
				return err
			}
			cmd.PrintErrf("ready. To use it with kubectl and tests: eval \"$(cluster env --name %s)\"\n", target.name)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), c.Kubeconfig())
			return err
		},
	}
	flags := up.Flags()
	flags.StringVar(&nodes, "nodes", string(cluster.None), "kind of nodes: none, kwok (simulated), or real (this machine; needs root)")
	releaseFlag(up, &release)
	flags.IntVar(&options.KwokNodes, "kwok-nodes", 0, "number of simulated nodes (default 10 with --nodes kwok)")
	flags.IntVar(&options.Port, "port", 0, "port of the API server (default a free one)")
	flags.StringArrayVar(&options.APIServerFlags, "apiserver-flag", nil, "a flag for kube-apiserver, such as --v=4; may be repeated")
	flags.StringArrayVar(&options.ControllerManagerFlags, "controller-manager-flag", nil, "a flag for kube-controller-manager; may be repeated")
	return up
}

func downCommand(target *named) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster, wait until it is gone, and take away what crashed ones left",
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
			cmd.PrintErrf("no cluster named %s runs\n", target.name)
			return cluster.Clean(cmd.ErrOrStderr())
		},
	}
}

func cleanCommand() *cobra.Command {
	var everything bool
	clean := &cobra.Command{
		Use:   "clean",
		Short: "Take away what crashed clusters left: processes, containers, mounts, network, files",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cluster.Clean(cmd.ErrOrStderr()); err != nil || !everything {
				return err
			}
			return cluster.Purge(cmd.ErrOrStderr())
		},
	}
	clean.Flags().BoolVar(&everything, "cache", false, "remove the built programs, images and kept logs as well")
	return clean
}
