// Command manager runs the two parts of Rollcall: "manager webhook" serves the admission webhooks, and
// "manager controller" reconciles gangs. Each part is a process, so that a failure of one of them does not
// affect the other (docs/adr/0032-separate-webhook.md). "manager detach" ends the management of all gangs, and
// "manager check" verifies the installation.
package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"rollcall.training/internal/buildinfo"
	"rollcall.training/internal/logging"
)

// logLevel is the level of the log of this process. It is info until the flags are parsed.
var logLevel slog.LevelVar

func main() {
	logging.SetUp(os.Stderr, &logLevel)
	if err := newRootCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		slog.Error("Exited with an error", "error", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "manager",
		Short:         "Run a part of Rollcall in a cluster",
		Version:       buildinfo.Version(),
		SilenceErrors: true, // main logs the error
		SilenceUsage:  true, // most errors are not errors of usage
		RunE: func(*cobra.Command, []string) error {
			return errors.New("a part is required: webhook or controller")
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newWebhookCommand(), newControllerCommand(), newDetachCommand(), newCheckCommand())
	return root
}
