package main

import (
	"embed"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
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

// exitUsage is the exit code of an invalid command, and of input that cannot be read.
const exitUsage = 2

// exitError is an error with an exit code. If its text is empty, the command has already printed
// the problem, and main prints nothing.
type exitError struct {
	error
	code int
}

// Unwrap returns the error without the exit code.
func (e exitError) Unwrap() error { return e.error }

// newUsageError gives an error of the command, its flags or its input the exit code [exitUsage]. It
// returns nil for nil.
func newUsageError(err error) error {
	if err == nil {
		return nil
	}
	return exitError{error: err, code: exitUsage}
}

// exitCode returns the exit code of an error: that of an [exitError] in its chain, or 1.
func exitCode(err error) int {
	var e exitError
	if errors.As(err, &e) {
		return e.code
	}
	return 1
}

// executeCommand runs the command line. An error that occurs before a command starts, such as an
// unknown flag, is a usage error.
func executeCommand(root *cobra.Command) error {
	rejectUnknownSubcommands(root)
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	err := root.Execute()
	if !started {
		return newUsageError(err)
	}
	return err
}

func newVersionCommand() *cobra.Command {
	cmd := newCommand("version", func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "version:     %s\n", buildinfo.Version())
		if commit := buildinfo.Commit(); commit != "" {
			fmt.Fprintf(out, "commit:      %s\n", commit)
		}
		fmt.Fprintf(out, "go:          %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
		fmt.Fprintf(out, "kubernetes:  %s or newer\n", gang.MinKubernetesVersion)
		return nil
	})
	cmd.Args = cobra.NoArgs
	return cmd
}
