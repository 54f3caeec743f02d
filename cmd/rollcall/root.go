package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

const rootLong = `Check and convert the manifests of distributed training gangs, and inspect gangs
in a cluster.

inject, vet, migrate and frameworks run the engine of Rollcall's admission webhook
without a cluster. They show the result of admission before you apply anything.
status and logs read gangs from a cluster with your permissions.

Exit codes:
  0  success
  1  failure

The help of each command lists its exit codes.`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "rollcall",
		Short:         "Check, convert and inspect distributed training gangs",
		Long:          rootLong,
		SilenceErrors: true, // main prints the error
		SilenceUsage:  true, // most errors, such as a denied manifest, are not errors of usage
		Version:       buildVersion(),
	}
	root.AddCommand(newInjectCommand(), newVetCommand(), newMigrateCommand(), newFrameworksCommand(),
		newStatusCommand(), newLogsCommand())
	return root
}

// buildVersion returns the module version that the go command recorded in the binary. It returns
// (devel) if there is none.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
