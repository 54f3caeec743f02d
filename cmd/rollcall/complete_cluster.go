package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"rollcall.training/injectors"
	"rollcall.training/internal/roster/cluster"
)

// completionTimeout limits how long the shell waits for the names of a cluster.
const completionTimeout = 3 * time.Second

// completeGang completes the name of a gang. Like kubectl, it completes nothing if the cluster does not
// answer.
func (c *clusterFlags) completeGang(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	reader, err := c.newReader()
	if err != nil || len(args) > 0 {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	gangs, _ := reader.ListGangs(ctx)
	var names []string
	for _, g := range gangs {
		names = append(names, cobra.CompletionWithDesc(g.Name, string(g.Phase)))
	}
	return names, directive
}

// completeWorkload completes the name of a framework, or of a labeled object after its kind.
func (c *clusterFlags) completeWorkload(
	cmd *cobra.Command, args []string, toComplete string,
) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, directive
	}
	prefix, _, isObject := strings.Cut(toComplete, "/")
	if !isObject {
		names := append(injectors.Builtin().Frameworks().Names(), "job/", "statefulset/")
		return names, directive | cobra.ShellCompDirectiveNoSpace
	}
	client, namespace, err := c.connect()
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	workloads, _ := cluster.ListWorkloads(ctx, client, namespace)
	var names []string
	for _, w := range workloads {
		if kind, _, ok := parseWorkloadName(prefix + "/" + w.Meta().Name); ok && kind == w.Kind() {
			names = append(names, prefix+"/"+w.Meta().Name)
		}
	}
	return names, directive
}

// completeNamespace completes the name of a namespace.
func (c *clusterFlags) completeNamespace(
	cmd *cobra.Command, _ []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	client, _, err := c.connect()
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, directive
	}
	var names []string
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return names, directive
}

// completeContext completes the name of a context of the kubeconfig file.
func (c *clusterFlags) completeContext(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
