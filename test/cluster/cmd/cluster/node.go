package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/test/cluster"
)

// nodeFault is a command that changes one real node.
type nodeFault struct {
	verb, short string
	apply       func(ctx context.Context, c *cluster.Cluster, node string) error
}

var nodeFaults = []nodeFault{
	{"stop", "Stop the kubelet and containerd; containers keep running (undo: start)",
		func(_ context.Context, c *cluster.Cluster, node string) error { return c.StopNode(node) }},
	{"kill", "Kill all processes of a node and cut its link (undo: start)",
		func(_ context.Context, c *cluster.Cluster, node string) error { return c.KillNode(node) }},
	{"start", "Undo stop and kill",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.StartNode(ctx, node) }},
	{"cut", "Cut the link of a node; processes keep running (undo: heal)",
		func(_ context.Context, c *cluster.Cluster, node string) error { return c.CutNode(node) }},
	{"heal", "Undo cut and slow",
		func(_ context.Context, c *cluster.Cluster, node string) error { return c.HealNode(node) }},
	{"cordon", "Keep new pods from a node (undo: uncordon)",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.CordonNode(ctx, node) }},
	{"drain", "Cordon a node and evict its pods (undo: uncordon)",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.DrainNode(ctx, node) }},
	{"uncordon", "Undo cordon and drain",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.UncordonNode(ctx, node) }},
	{"remove", "Remove a node from the cluster and from this machine (undo: add)",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.RemoveNode(ctx, node) }},
}

func newNodeCommand(target *clusterRef) *cobra.Command {
	node := &cobra.Command{
		Use:   "node",
		Short: "Add and remove real nodes, and cause faults of them; without arguments, list them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := target.attachCluster()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(c.RealNodes(), "\n"))
			return err
		},
	}
	for _, fault := range nodeFaults {
		node.AddCommand(newFaultCommand(target, fault.verb+" node", fault.short, fault.apply))
	}
	node.AddCommand(newNodeAddCommand(target), newNodeSlowCommand(target))
	return node
}

// newFaultCommand returns a command that changes the node or the pod of its argument.
func newFaultCommand(
	target *clusterRef, use, short string, apply func(ctx context.Context, c *cluster.Cluster, name string) error,
) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := target.attachCluster()
			if err != nil {
				return err
			}
			return apply(cmd.Context(), c, args[0])
		},
	}
}

func newNodeAddCommand(target *clusterRef) *cobra.Command {
	return &cobra.Command{
		Use:   "add",
		Short: "Add a real node and print its name (undo: remove)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := target.attachCluster()
			if err != nil {
				return err
			}
			name, err := c.AddNode(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), name)
			return err
		},
	}
}

func newNodeSlowCommand(target *clusterRef) *cobra.Command {
	var slowness cluster.Slowness
	slow := newFaultCommand(target, "slow node", "Make the link of a node slow (undo: heal)",
		func(_ context.Context, c *cluster.Cluster, node string) error { return c.SlowNode(node, slowness) })
	flags := slow.Flags()
	flags.StringVar(&slowness.Rate, "rate", "", "bandwidth, for example 1mbit")
	const emulated = " (needs CONFIG_NET_SCH_NETEM)"
	flags.StringVar(&slowness.Delay, "delay", "", "delay of each packet, for example 50ms"+emulated)
	flags.StringVar(&slowness.Loss, "loss", "", "part of packets that are dropped, for example 5%"+emulated)
	return slow
}

func newPodCommand(target *clusterRef) *cobra.Command {
	pod := &cobra.Command{Use: "pod", Short: "Cause faults of pods on real nodes"}
	var namespace string
	pod.PersistentFlags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the pod")
	for _, fault := range []struct {
		verb, short string
		apply       func(ctx context.Context, c *cluster.Cluster, namespace, name string) error
	}{
		{"freeze", "Stop all processes of a pod with SIGSTOP (undo: thaw)", func(
			ctx context.Context, c *cluster.Cluster, namespace, name string,
		) error {
			return c.FreezePod(ctx, namespace, name)
		}},
		{"thaw", "Undo freeze", func(ctx context.Context, c *cluster.Cluster, namespace, name string) error {
			return c.ThawPod(ctx, namespace, name)
		}},
	} {
		apply := func(ctx context.Context, c *cluster.Cluster, name string) error {
			return fault.apply(ctx, c, namespace, name)
		}
		pod.AddCommand(newFaultCommand(target, fault.verb+" pod", fault.short, apply))
	}
	return pod
}
