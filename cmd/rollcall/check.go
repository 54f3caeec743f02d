package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"rollcall.training/internal/check"
)

// checkOptions are the flags of rollcall check.
type checkOptions struct {
	cluster          clusterFlags
	releaseNamespace string
	pre              bool
	timeout          time.Duration
	output           string
	failOn           string
}

const checkLong = `Verify an installation of Rollcall, or the prerequisites before the installation.

The command reads the objects of the installation, and creates two labeled Jobs as dry
runs: a valid Job must be injected, and an invalid Job must be denied. It changes
nothing. If Rollcall is not installed, the command checks the version and the features
of the API server, and your permissions.

The status of a check is ok, warning, error or unknown. Unknown means that you must not
read something. The line names the permission. Without --namespace, the command
chooses a namespace that Rollcall manages for the dry runs.

Exit codes:
  0  no result is as severe as --fail-on
  1  a result is as severe as --fail-on, or the API server does not answer
  2  the command is invalid`

func newCheckCommand() *cobra.Command {
	o := checkOptions{output: outputText, failOn: string(check.Error)}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify an installation of Rollcall, or its prerequisites",
		Long:  checkLong,
		Example: `  rollcall check --pre
  rollcall check
  rollcall check --namespace team --fail-on warning -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.timeout <= 0 {
				return newUsageError(errors.New("--timeout: must be positive"))
			}
			reader, err := o.newReader()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return o.check(ctx, reader, cmd.OutOrStdout())
		},
	}
	o.cluster.addFlags(cmd)
	f := cmd.Flags()
	f.Lookup("namespace").Usage = "namespace of the dry runs (default: a namespace that Rollcall manages)"
	f.StringVar(&o.releaseNamespace, "release-namespace", "",
		"namespace of the installation (default: found by its labels)")
	mustComplete(cmd, "release-namespace", o.cluster.completeNamespace)
	f.BoolVar(&o.pre, "pre", false, "only the prerequisites of an installation")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "maximum time for all checks")
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON, outputYAML)
	statuses := []string{string(check.Error), string(check.Warning), string(check.Unknown), failOnNever}
	addChoiceFlag(cmd, &o.failOn, "fail-on", "", "least severe status that causes exit code 1", statuses...)
	return cmd
}

func (o *checkOptions) newReader() (check.Reader, error) {
	config, namespace, err := o.cluster.loadConfig()
	if err != nil {
		return check.Reader{}, err
	}
	reader, err := check.NewReader(config)
	reader.ReleaseNamespace, reader.OnlyPrerequisites = o.releaseNamespace, o.pre
	reader.Namespace, reader.PreferredNamespace = o.cluster.namespace, namespace
	return reader, err
}

// check prints the report. The error determines the exit code.
func (o *checkOptions) check(ctx context.Context, reader check.Reader, out io.Writer) error {
	facts, err := reader.Read(ctx)
	if err != nil {
		return err
	}
	report := check.Judge(facts)
	if o.output == outputText {
		err = check.Print(wrapForTerminal(out), report)
	} else {
		err = printObject(out, o.output, report)
	}
	if err != nil {
		return newUsageError(err)
	}
	if o.failOn != failOnNever && report.Has(check.Status(o.failOn)) {
		return errFindings
	}
	return nil
}
