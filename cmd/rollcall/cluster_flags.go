package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/roster/cluster"
)

// clusterFlags are the flags that select a cluster and a namespace. They have the names and the
// meanings of kubectl.
type clusterFlags struct {
	kubeconfig, context, namespace string
	allNamespaces                  bool
}

func (c *clusterFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG or ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig file (default: the current context)")
	f.StringVarP(&c.namespace, "namespace", "n", "", "namespace (default: the namespace of the context)")
	mustMarkFilename(cmd, "kubeconfig")
	mustComplete(cmd, "context", c.completeContext)
	mustComplete(cmd, "namespace", c.completeNamespace)
}

// addAllNamespacesFlag adds --all-namespaces for a command that lists objects of the given kind.
func (c *clusterFlags) addAllNamespacesFlag(f *pflag.FlagSet, objects string) {
	f.BoolVarP(&c.allNamespaces, "all-namespaces", "A", false, objects+" of all namespaces")
}

// loadConfig returns the configuration of the cluster and the selected namespace. The namespace is
// empty for all namespaces.
func (c *clusterFlags) loadConfig() (*rest.Config, string, error) {
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Context, flags.Namespace = &c.kubeconfig, &c.context, &c.namespace
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, "", fmt.Errorf("loading the kubeconfig: %w", err)
	}
	if !c.namesCluster(flags, config) {
		return nil, "", errNoCluster
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the namespace of the context: %w", err)
	}
	if c.allNamespaces {
		namespace = ""
	}
	return config, namespace, nil
}

// errNoCluster is the error of a command that needs a cluster if nothing names one.
var errNoCluster = errors.New("no cluster is selected: neither $KUBECONFIG nor ~/.kube/config has a current context; " +
	"set --kubeconfig or --context, as for kubectl")

// namesCluster reports whether the kubeconfig, its flags or the pod of the command name a cluster. Otherwise,
// client-go returns the address localhost:8080, on which no API server listens.
func (c *clusterFlags) namesCluster(flags *genericclioptions.ConfigFlags, config *rest.Config) bool {
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	isDefault := config.Host == clientcmd.ClusterDefaults.Server
	return err != nil || !isDefault || raw.CurrentContext != "" || c.context != "" || os.Getenv("KUBERNETES_MASTER") != ""
}

// connect returns a client of the selected cluster, and the selected namespace as loadConfig does. The client ignores
// warnings of webhooks, because the results of the commands contain what they warn about.
func (c *clusterFlags) connect() (kubernetes.Interface, string, error) {
	config, namespace, err := c.loadConfig()
	if err != nil {
		return nil, "", err
	}
	// The default of client-go, 5 requests per second, would delay the logs of 100 ranks by 20 s.
	// The commands limit their concurrent requests, and the API server has priority and fairness.
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("creating a client of the cluster: %w", err)
	}
	return client, namespace, nil
}

// newReader returns a reader of the gangs in the selected cluster and namespace.
func (c *clusterFlags) newReader() (inspect.Reader, error) {
	client, namespace, err := c.connect()
	if err != nil {
		return inspect.Reader{}, err
	}
	// The configuration does not affect which gang a workload declares, so the default is correct
	// for every cluster.
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	return inspect.Reader{Client: client, Engine: engine, Namespace: namespace}, nil
}

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
