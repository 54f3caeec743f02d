package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rollcall.training/roster"
)

// clusterFlags say which cluster and namespace a command looks at, as kubectl has them.
type clusterFlags struct {
	kubeconfig, context, namespace string
	all                            bool
}

func (c *clusterFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "path of the kubeconfig file, instead of $KUBECONFIG or ~/.kube/config")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig file to use")
	f.StringVarP(&c.namespace, "namespace", "n", "", "namespace, instead of the context's")
}

// addAll adds the flag for all namespaces.
func (c *clusterFlags) addAll(f *pflag.FlagSet) {
	f.BoolVarP(&c.all, "all-namespaces", "A", false, "look in all namespaces")
}

// find finds the cluster, and the namespace to look in; empty for all.
func (c *clusterFlags) find() (*rest.Config, string, error) {
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Context, flags.Namespace = &c.kubeconfig, &c.context, &c.namespace
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, "", fmt.Errorf("finding the cluster: %w", err)
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("finding the namespace: %w", err)
	}
	if c.all {
		namespace = ""
	}
	return config, namespace, nil
}

// reader connects to the cluster.
func (c *clusterFlags) reader() (roster.Reader, error) {
	config, namespace, err := c.find()
	if err != nil {
		return roster.Reader{}, err
	}
	// What is asked is bounded here, and the API server has priority and fairness;
	// client-go's 5 requests a second would make the logs of 100 ranks take 20 s to open.
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return roster.Reader{}, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return roster.Reader{Client: client, Namespace: namespace}, nil
}

// terminal returns the size of the terminal that out is; false when it is none.
func terminal(out io.Writer) (width, height int, ok bool) {
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

// colored reports whether to colour what is written to a terminal (no-color.org).
func colored(isTerminal bool) bool {
	return isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
