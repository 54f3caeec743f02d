package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/detach"
)

// detachOptions are the frameworks and the values of the flags of the command detach.
type detachOptions struct {
	registry   injectors.Registry
	namespaces []string
	timeout    time.Duration
}

// newDetachCommand returns the command that the chart runs before the release is uninstalled.
func newDetachCommand(registry injectors.Registry) *cobra.Command {
	o := detachOptions{registry: registry}
	cmd := &cobra.Command{
		Use:   "detach",
		Short: "End the management of all gangs, and resume those that are restarting",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDetach(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.namespaces, "namespaces", []string{metav1.NamespaceAll},
		"namespaces whose gangs are detached, separated by commas (default: all namespaces)")
	f.DurationVar(&o.timeout, "timeout", 4*time.Minute, "maximum time to wait for terminating pods")
	return cmd
}

// runDetach detaches the gangs from Rollcall and writes the results to out.
func runDetach(ctx context.Context, o detachOptions, out io.Writer) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the client configuration: %w", err)
	}
	config.WarningHandler = rest.NoWarnings{} // the results contain what the webhook warns about
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	detacher := detach.Detacher{
		Client:     client,
		Engine:     injectors.NewEngine(o.registry, gang.Config{}),
		Namespaces: o.namespaces,
		Clock:      clock.RealClock{},
	}
	failed := false
	err = detacher.Run(ctx, func(r detach.Result) {
		failed = failed || r.Err != nil
		fmt.Fprintln(out, r)
	})
	if err == nil && failed {
		err = errors.New("some workloads could not be detached; see above")
	}
	return err
}
