package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"rollcall.training/internal/check"
)

// checkOptions are the values of the flags of the command check.
type checkOptions struct {
	releaseNamespace string
	namespace        string
	timeout          time.Duration
}

// newCheckCommand returns the command that the chart runs for "helm test".
func newCheckCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify the installation from a pod of the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCheck(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.releaseNamespace, "release-namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of the installation (default: the environment variable POD_NAMESPACE)")
	f.StringVar(&o.namespace, "namespace", "", "namespace of the dry runs (default: a namespace that Rollcall manages)")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "maximum time for all checks")
	return cmd
}

// runCheck verifies the installation and writes the report to out. The error reports that a result is an
// error.
func runCheck(ctx context.Context, o checkOptions, out io.Writer) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the client configuration: %w", err)
	}
	reader, err := check.NewReader(config)
	if err != nil {
		return err
	}
	reader.ReleaseNamespace, reader.Namespace = o.releaseNamespace, o.namespace
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	facts, err := reader.Read(ctx)
	if err != nil {
		return err
	}
	report := check.Judge(facts)
	if err := check.Print(out, report); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	if !report.Installed || report.Has(check.Error) {
		return errors.New("the installation has errors; see above")
	}
	return nil
}
