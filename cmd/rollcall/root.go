package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "rollcall",
		Short: "Label a Job; it becomes a distributed training gang",
		Long: `Label a Job; it becomes a distributed training gang.

rollcall runs the engine of Rollcall's admission webhook on manifests, so that
what a cluster would make of them can be read, kept and compared before anything
is applied. Of gangs that live in a cluster it shows how they stand, and what their
ranks write.`,
		SilenceErrors: true, // main prints the error, once
		SilenceUsage:  true, // a denied manifest is no mistake in the command
		Version:       version(),
	}
	root.AddCommand(newInject(), newVet(), newMigrate(), newFrameworks(), newStatus(), newLogs())
	return root
}

// version is the module version that the go command stamped into the binary.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
