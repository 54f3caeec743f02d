// Command release builds the image of the manager, or everything that belongs to a release.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := &cobra.Command{
		Use:           "release",
		Short:         "Build images and releases of Rollcall without a container engine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newImageCommand(), newBuildCommand(), newLicensesCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}
