package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/internal/buildinfo"
)

const rootLong = `Check and convert the manifests of distributed training gangs, and inspect gangs
in a cluster.

inject, diff, explain, vet, migrate and frameworks run the engine of Rollcall's
admission webhook without a cluster. They show the result before you apply
anything. policy checks and tests policies for gangs, also without a cluster. With
--from-cluster, migrate reads jobs from a cluster. With --cluster, policy reads gangs,
and diff compares manifests with objects. explain KIND/NAME explains an object. run
creates a gang. status, logs and report read gangs from a cluster with your
permissions. exec and port-forward run kubectl for the pods of ranks. detach ends the
management of gangs by Rollcall. check verifies an installation.

Exit codes:
  0  success
  1  failure
  2  the command or its input is invalid

The help of each command lists its exit codes.`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           programName,
		Short:         "Check, convert and inspect distributed training gangs",
		Long:          rootLong,
		SilenceErrors: true, // main prints the error
		SilenceUsage:  true, // most errors, such as a denied manifest, are not errors of usage
		Version:       buildinfo.Version(),
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(newInjectCommand(), newVetCommand(), newMigrateCommand(), newFrameworksCommand(),
		newStatusCommand(), newLogsCommand(), newDetachCommand(), newPolicyCommand(), newCheckCommand(),
		newVersionCommand(), newExplainCommand(), newDiffCommand(), newExecCommand(), newPortForwardCommand(),
		newRunCommand(), newReportCommand())
	return root
}

// rejectUnknownSubcommands makes an unknown subcommand of a command an error. By default, cobra prints the help of
// the command and succeeds.
func rejectUnknownSubcommands(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.HasSubCommands() {
			cmd.Args, cmd.DisableFlagsInUseLine = cobra.NoArgs, true
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// rejectFileArguments is the validation of a command whose files are in --filename, as in kubectl.
func rejectFileArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unexpected argument %q; specify files with --filename: %s -f %s",
		args[0], cmd.CommandPath(), strings.Join(args, " -f "))
}

// allowOneArgument is the validation of a command with one optional name.
func allowOneArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s accepts one name, not %d", cmd.CommandPath(), len(args))
	}
	return nil
}

// requireOneArgument is the validation of a command with one name.
func requireOneArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s requires a name", cmd.CommandPath())
	}
	return allowOneArgument(cmd, args)
}
