package manager

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"rollcall.training/injectors"
	"rollcall.training/internal/buildinfo"
	"rollcall.training/internal/logging"
)

// logLevel is the level of the log of this process. It is info until the flags are parsed.
var logLevel slog.LevelVar

// Main runs the part that the arguments of the process name, with the frameworks of a registry. It does not return
// before the process is terminated, and exits with status 1 after an error.
func Main(registry injectors.Registry) {
	logging.SetUp(os.Stderr, &logLevel)
	if err := newRootCommand(registry).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		slog.Error("Exited with an error", "error", err)
		os.Exit(1)
	}
}

func newRootCommand(registry injectors.Registry) *cobra.Command {
	root := &cobra.Command{
		Use:           "manager",
		Short:         "Run a part of Rollcall in a cluster",
		Version:       buildinfo.Version(),
		SilenceErrors: true, // main logs the error
		SilenceUsage:  true, // most errors are not errors of usage
		RunE: func(*cobra.Command, []string) error {
			return errors.New("a part is required: webhook, controller, detach or check")
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		newWebhookCommand(registry), newControllerCommand(registry), newDetachCommand(registry), newCheckCommand())
	return root
}
