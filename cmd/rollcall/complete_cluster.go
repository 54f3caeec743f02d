package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"rollcall.training/injectors"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/roster/cluster"
)

// completionTimeout limits how long the shell waits for the names of a cluster.
const completionTimeout = 3 * time.Second

// completeNames completes the names that list returns. Like kubectl, it completes nothing if the cluster does not
// answer.
func (c *clusterFlags) completeNames(
	cmd *cobra.Command, list func(context.Context, inspect.Reader) []string,
) ([]string, cobra.ShellCompDirective) {
	reader, err := c.newReader()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	return list(ctx, reader), cobra.ShellCompDirectiveNoFileComp
}

// completeGang completes the name of a gang.
func (c *clusterFlags) completeGang(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeNames(cmd, func(ctx context.Context, r inspect.Reader) (names []string) {
		gangs, _ := r.ListGangs(ctx)
		for _, g := range gangs {
			names = append(names, cobra.CompletionWithDesc(g.Name, string(g.Phase)))
		}
		return names
	})
}

// completeWorkload completes the name of a framework, or of a labeled object after its kind.
func (c *clusterFlags) completeWorkload(
	cmd *cobra.Command, args []string, toComplete string,
) ([]string, cobra.ShellCompDirective) {
	prefix, _, isObject := strings.Cut(toComplete, "/")
	switch {
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case !isObject:
		names := append(injectors.Builtin().Frameworks().Names(), "job/", "statefulset/")
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return c.completeNames(cmd, func(ctx context.Context, r inspect.Reader) (names []string) {
		workloads, _ := cluster.ListWorkloads(ctx, r.Client, r.Namespace)
		for _, w := range workloads {
			object := prefix + "/" + w.Meta().Name
			if kind, _, ok := parseWorkloadName(object); ok && kind == w.Kind() {
				names = append(names, object)
			}
		}
		return names
	})
}

// completeNamespace completes the name of a namespace.
func (c *clusterFlags) completeNamespace(
	cmd *cobra.Command, _ []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return c.completeNames(cmd, func(ctx context.Context, r inspect.Reader) (names []string) {
		namespaces, _ := listNamespaces(ctx, r.Client, "")
		for i := range namespaces {
			names = append(names, namespaces[i].Name)
		}
		return names
	})
}

// completeContext completes the name of a context of the kubeconfig file.
func (c *clusterFlags) completeContext(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Collect(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
