package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/inspect"
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

// terminalSize returns the size of a terminal in characters. It returns false if out is not a
// terminal, and zeros if the terminal does not report its size.
func terminalSize(out io.Writer) (width, height int, isTerminal bool) {
	f, isFile := out.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0, true
	}
	return width, height, true
}

// useColor reports whether to print colors. It respects NO_COLOR (https://no-color.org).
func useColor(isTerminal bool) bool {
	return isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
