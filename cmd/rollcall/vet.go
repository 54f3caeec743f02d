package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/internal/buildinfo"
	"rollcall.training/internal/vet"
)

// Values of --output that only vet has.
const (
	outputText  = "text"
	outputSARIF = "sarif"
)

// failOnNever is the value of --fail-on that no severity reaches.
const failOnNever = "never"

// vetOptions are the flags of rollcall vet.
type vetOptions struct {
	files   []string
	engine  engineFlags
	output  string
	failOn  string
	disable []string
	policy  string
	require bool
	list    bool
	explain string

	// commandPath is the command that messages refer to: "rollcall vet" or "kubectl rollcall vet".
	commandPath string
}

func newVetCommand() *cobra.Command {
	o := &vetOptions{output: outputText, failOn: string(vet.Error)}
	cmd := newCommand("vet", o.runVet)
	cmd.Args = rejectFileArguments
	o.addFlags(cmd)
	return cmd
}

func (o *vetOptions) addFlags(cmd *cobra.Command) {
	addFilenameFlag(cmd, &o.files, "filename", "f", filenameUsage)
	o.engine.addFlags(cmd)
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON, outputSARIF)
	severities := []string{string(vet.Error), string(vet.Warning), string(vet.Info), failOnNever}
	addChoiceFlag(cmd, &o.failOn, "fail-on", "", "lowest severity that causes exit code 1", severities...)
	f := cmd.Flags()
	f.StringSliceVar(&o.disable, "disable", nil, "codes of disabled checks, separated by commas")
	f.StringVar(&o.policy, "policy", "", "policy file whose limits the gangs must satisfy")
	mustMarkFilename(cmd, "policy", "yaml", "yml")
	f.BoolVar(&o.require, "require", false, requireUsage)
	f.BoolVar(&o.list, "list", false, "list of all checks instead of findings")
	f.StringVar(&o.explain, "explain", "", "code of a check, for its explanation instead of findings")
	completeFlag(cmd, "disable", vet.Codes())
	completeFlag(cmd, "explain", vet.Codes())
}

// errFindings is the error of findings with the severity of --fail-on. Its text is empty because the
// findings are printed.
var errFindings = exitError{error: errors.New(""), code: 1}

func (o *vetOptions) runVet(cmd *cobra.Command, _ []string) error {
	o.commandPath = cmd.CommandPath()
	switch stdout := cmd.OutOrStdout(); {
	case o.list && o.explain != "" || len(o.files) > 0 && (o.list || o.explain != ""):
		return newUsageError(errors.New("--filename, --list and --explain are mutually exclusive; use one of them"))
	case o.list:
		return listChecks(stdout)
	case o.explain != "":
		return newUsageError(o.explainCheck(stdout))
	case len(o.files) == 0:
		return newUsageError(errNoFiles)
	}
	return o.vetFiles(cmd.InOrStdin(), cmd.OutOrStdout())
}

// vetFiles checks the files and prints the findings. The error determines the exit code.
func (o *vetOptions) vetFiles(stdin io.Reader, stdout io.Writer) error {
	options, err := o.runOptions()
	if err != nil {
		return newUsageError(err)
	}
	docs, unreadable, err := readManifests(o.files, stdin)
	if err != nil {
		return newUsageError(err)
	}
	return o.printAndJudge(stdout, vet.Run(docs, unreadable, options), len(unreadable))
}

// printAndJudge prints a report. The error determines the exit code.
func (o *vetOptions) printAndJudge(stdout io.Writer, report vet.Report, unreadable int) error {
	if err := o.printReport(stdout, report); err != nil {
		return newUsageError(err)
	}
	switch {
	case unreadable > 0:
		return newUsageError(fmt.Errorf("%s could not be read; all others were checked",
			gang.FormatCount(unreadable, "document")))
	case slices.ContainsFunc(report.Findings, o.causesFailure):
		return errFindings
	case o.require && report.Workloads == 0:
		return exitError{error: errors.New("--require: " + report.ExplainUnchecked()), code: 1}
	}
	return nil
}

// causesFailure reports whether a finding reaches the severity of --fail-on.
func (o *vetOptions) causesFailure(f vet.Finding) bool {
	return o.failOn != failOnNever && f.Severity.AtLeast(vet.Severity(o.failOn))
}

// runOptions returns the options of the checks. The error reports a flag with an unknown value.
func (o *vetOptions) runOptions() (vet.Options, error) {
	engine, err := o.engine.newEngine()
	if err != nil {
		return vet.Options{}, err
	}
	options := vet.Options{Engine: engine, Namespace: o.engine.namespace, Now: clock.RealClock{}.Now()}
	if o.policy != "" {
		if options.Policy, err = requirePolicy("--policy", o.policy, nil); err != nil {
			return vet.Options{}, err
		}
	}
	for _, code := range o.disable {
		check, err := o.findCheck(strings.TrimSpace(code))
		if err != nil {
			return vet.Options{}, err
		}
		options.Disabled = append(options.Disabled, check.Code)
	}
	return options, nil
}

// printReport prints a report in the format of --output.
func (o *vetOptions) printReport(out io.Writer, r vet.Report) error {
	switch o.output {
	case outputJSON:
		return printJSON(out, r, "  ")
	case outputSARIF:
		return printJSON(out, r.SARIF(buildinfo.Version()), "  ")
	default:
		return o.printText(wrapForTerminal(out), r)
	}
}

// findCheck returns the check with the given code, ignoring case.
func (o *vetOptions) findCheck(code string) (vet.Check, error) {
	for _, check := range vet.Checks() {
		if strings.EqualFold(string(check.Code), code) {
			return check, nil
		}
	}
	return vet.Check{}, fmt.Errorf("check %q does not exist; run %s --list for all checks", code, o.commandPath)
}
