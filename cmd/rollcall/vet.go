package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/internal/buildinfo"
	"rollcall.training/internal/text"
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
	o.addReportFlags(cmd)
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

// addReportFlags adds the flags of a command that prints findings.
func (o *vetOptions) addReportFlags(cmd *cobra.Command) {
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON, outputSARIF)
	severities := []string{string(vet.Error), string(vet.Warning), string(vet.Info), failOnNever}
	addChoiceFlag(cmd, &o.failOn, "fail-on", "", "lowest severity that causes exit code 1", severities...)
}

// errFindings is the error of findings with the severity of --fail-on. Its text is empty because the
// findings are printed.
var errFindings = exitError{error: errors.New(""), code: 1}

func (o *vetOptions) runVet(cmd *cobra.Command, _ []string) error {
	o.commandPath = cmd.CommandPath()
	stdout := cmd.OutOrStdout()
	switch {
	case o.list && o.explain != "" || len(o.files) > 0 && (o.list || o.explain != ""):
		return newUsageError(errors.New("--filename, --list and --explain are mutually exclusive; use one of them"))
	case o.list:
		return listChecks(stdout)
	case o.explain != "":
		return newUsageError(o.explainCheck(stdout))
	case len(o.files) == 0:
		return newUsageError(errNoFiles)
	}
	options, err := o.runOptions()
	if err != nil {
		return newUsageError(err)
	}
	docs, unreadable, err := readManifests(o.files, cmd.InOrStdin())
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

// printText prints findings as text. Findings of one object share a heading. A heading shows the
// namespace of an object only if it is not that of --namespace. A report without findings is one line. If
// the input has no labeled workloads, the last line describes its content instead.
func (o *vetOptions) printText(out io.Writer, r vet.Report) error {
	namespace := o.engine.namespace
	workloads := gang.FormatCount(r.Workloads, "workload")
	switch {
	case len(r.Findings) == 0 && r.Workloads == 0:
		_, err := fmt.Fprintln(out, r.ExplainUnchecked())
		return err
	case len(r.Findings) == 0:
		_, err := fmt.Fprintf(out, "%s, no findings%s\n", workloads, formatSuppressed(r))
		return err
	}
	var text strings.Builder
	for rest := r.Findings; len(rest) > 0; {
		heading := formatHeading(rest[0], namespace)
		n := 1
		for n < len(rest) && formatHeading(rest[n], namespace) == heading {
			n++
		}
		fmt.Fprintln(&text, heading)
		printFindings(&text, rest[:n])
		fmt.Fprintln(&text)
		rest = rest[n:]
	}
	fmt.Fprintf(&text, "%s: %s, %s, %d info%s; run %s --explain CODE for details\n",
		workloads, gang.FormatCount(r.Errors, "error"), gang.FormatCount(r.Warnings, "warning"),
		r.Infos, formatSuppressed(r), o.commandPath)
	if r.Workloads == 0 {
		fmt.Fprintln(&text, r.ExplainUnchecked())
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// formatSuppressed returns the number of suppressed findings with a comma; empty without any.
func formatSuppressed(r vet.Report) string {
	if len(r.Suppressed) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d suppressed", len(r.Suppressed))
}

// formatHeading returns the file and the object of a finding. For a document without an object it
// returns the file and the number of the document.
func formatHeading(f vet.Finding, namespace string) string {
	text := f.Source
	switch {
	case f.Object != "":
		text += ": " + f.Object
	case f.Document > 0:
		text += fmt.Sprintf(": document %d", f.Document)
	}
	if f.Object != "" && f.Namespace != "" && f.Namespace != namespace {
		text += " in " + f.Namespace
	}
	return text
}

// printFindings prints the severity, code, line and field of each finding, and its message and fix
// on the next lines. Codes are aligned.
func printFindings(text *strings.Builder, findings []vet.Finding) {
	const indent = "           "
	codeWidth := 0
	for _, f := range findings {
		codeWidth = max(codeWidth, len(f.Code))
	}
	for _, f := range findings {
		var position []string
		if f.Line > 0 {
			position = append(position, fmt.Sprintf("line %d", f.Line))
		}
		if f.Field != "" {
			position = append(position, f.Field)
		}
		summary := fmt.Sprintf("%-*s  %s", codeWidth, f.Code, strings.Join(position, ", "))
		fmt.Fprintf(text, "  %-7s  %s\n", f.Severity, strings.TrimSpace(summary))
		fmt.Fprintln(text, indent+f.Message)
		if f.Fix != "" {
			fmt.Fprintln(text, indent+"fix: "+f.Fix)
		}
	}
}

// listChecks prints a table of all checks.
func listChecks(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CODE\tSEVERITY\tTITLE")
	for _, check := range vet.Checks() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", check.Code, check.Severity, check.Title)
	}
	return w.Flush()
}

// maxTextWidth is the width of explanations in characters.
const maxTextWidth = 88

// explainCheck prints the explanation of the check of --explain.
func (o *vetOptions) explainCheck(out io.Writer) error {
	check, err := o.findCheck(o.explain)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s (%s): %s.\n\n%s\n\n%s\n",
		check.Code, check.Severity, check.Title,
		text.Wrap(check.Why, maxTextWidth), text.Wrap("Fix: "+check.Fix, maxTextWidth))
	return err
}
