package main

import (
	"embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/internal/buildinfo"
)

//go:embed help/*.txt
var helpTexts embed.FS

// newCommand returns a command with the texts of help/NAME.txt: the line of usage, the summary, the description with
// the exit codes, and examples.
func newCommand(name string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err)
	}
	usage, rest, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	short, rest, _ := strings.Cut(rest, "\n\n")
	long, examples, _ := strings.Cut(rest, "\n\nExamples:\n")
	return &cobra.Command{Use: usage, Short: short, Long: long, Example: examples, RunE: run}
}

func newRootCommand() *cobra.Command {
	root := newCommand(programName, nil)
	root.SilenceErrors = true // main prints the error
	root.SilenceUsage = true  // most errors, such as a denied manifest, are not errors of usage
	root.Version = buildinfo.Version()
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
