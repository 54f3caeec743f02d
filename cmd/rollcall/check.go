package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall.training/internal/check"
)

// checkOptions are the flags of rollcall check.
type checkOptions struct {
	cluster          clusterFlags
	releaseNamespace string
	pre              bool
	wait             bool
	timeout          time.Duration
	output           string
	failOn           string
}

func newCheckCommand() *cobra.Command {
	o := checkOptions{output: outputText, failOn: string(check.Error)}
	cmd := newCommand("check", func(cmd *cobra.Command, _ []string) error {
		if o.timeout <= 0 {
			return newUsageError(errors.New("--timeout: must be positive"))
		}
		if o.pre && o.wait {
			return newUsageError(errors.New("--wait: must not be set with --pre"))
		}
		reader, err := o.newReader()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		return o.check(ctx, reader, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	cmd.Args = cobra.NoArgs
	o.cluster.addFlags(cmd)
	f := cmd.Flags()
	f.Lookup("namespace").Usage = "namespace of the dry runs (default: a namespace that Rollcall manages)"
	f.StringVar(&o.releaseNamespace, "release-namespace", "",
		"namespace of the installation (default: found by its labels)")
	mustComplete(cmd, "release-namespace", o.cluster.completeNamespace)
	f.BoolVar(&o.pre, "pre", false, "only the prerequisites of an installation")
	f.BoolVar(&o.wait, "wait", false, "repeat the checks until they pass")
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
func (o *checkOptions) check(ctx context.Context, reader check.Reader, out, progress io.Writer) error {
	report, result := o.waitForReport(ctx, func(ctx context.Context) (check.Report, error) {
		facts, err := reader.Read(ctx)
		return check.Judge(facts), err
	}, progress)
	if result != nil && !errors.Is(result, errFindings) {
		return result
	}
	var err error
	if o.output == outputText {
		err = check.Print(wrapForTerminal(out), report)
	} else {
		err = printObject(out, o.output, report)
	}
	if err != nil {
		return newUsageError(err)
	}
	return result
}

// checkInterval is the time between two reports of --wait.
const checkInterval = 2 * time.Second

// waitForReport returns a report, and errFindings if the checks do not pass. With --wait, it repeats the checks until
// an installation passes them or ctx is done, and prints what it waits for.
func (o *checkOptions) waitForReport(
	ctx context.Context, judge func(context.Context) (check.Report, error), progress io.Writer,
) (check.Report, error) {
	var last check.Report
	var shown []string
	for {
		report, err := judge(ctx)
		if o.wait && ctx.Err() != nil { // the facts may be incomplete
			return last, errFindings
		}
		if err != nil {
			return report, err
		}
		failed := o.listFailedChecks(report)
		switch {
		case o.wait && !report.Installed:
			failed = []string{"the installation"}
		case len(failed) == 0:
			return report, nil
		case !o.wait:
			return report, errFindings
		}
		if !slices.Equal(failed, shown) {
			_, _ = fmt.Fprintf(progress, "Waiting for %s\n", strings.Join(failed, ", ")) // the report matters
		}
		last, shown = report, failed
		select {
		case <-ctx.Done():
			return last, errFindings
		case <-time.After(checkInterval):
		}
	}
}

// listFailedChecks returns the codes of the results that are as severe as --fail-on, each once.
func (o *checkOptions) listFailedChecks(report check.Report) []string {
	var codes []string
	for _, result := range report.Results {
		if o.failOn != failOnNever && result.IsAsSevereAs(check.Status(o.failOn)) {
			codes = append(codes, string(result.Code))
		}
	}
	return slices.Compact(codes)
}
