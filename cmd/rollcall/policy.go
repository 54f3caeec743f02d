package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
)

func newPolicyCommand() *cobra.Command {
	cmd := newCommand("policy", nil)
	cmd.AddCommand(newPolicyCheckCommand(), newPolicyTestCommand(), newPolicyExplainCommand(),
		newPolicyAuditCommand(), newPolicyDiffCommand(), newPolicyVAPCommand())
	return cmd
}

func newPolicyCheckCommand() *cobra.Command {
	var file string
	output := outputText
	cmd := newCommand("policy-check", func(cmd *cobra.Command, _ []string) error {
		return checkPolicy(file, output, cmd.InOrStdin(), cmd.OutOrStdout())
	})
	cmd.Args = rejectFileArguments
	addPolicyFileFlag(cmd, &file, "filename", "f")
	addChoiceFlag(cmd, &output, "output", "o", "output format", outputText, outputJSON)
	return cmd
}

// addPolicyFileFlag adds a flag for the path of a policy file.
func addPolicyFileFlag(cmd *cobra.Command, file *string, name, shorthand string) {
	cmd.Flags().StringVarP(file, name, shorthand, "", "policy file, or - for standard input")
	mustMarkFilename(cmd, name, "yaml", "yml")
}

// checkPolicy prints the problems of a policy file.
func checkPolicy(path, output string, stdin io.Reader, out io.Writer) error {
	p, problems, err := readPolicy(path, stdin)
	if err != nil {
		return newUsageError(err)
	}
	if p != nil {
		for _, e := range p.Expired(clock.RealClock{}.Now()) {
			problems = append(problems, policy.Problem{
				Severity: policy.Advice, Source: path, Path: "exemptions",
				Message: fmt.Sprintf("the exemption of %s in %s ended after %s; remove it", e.Rule, e.Namespace, e.Until),
			})
		}
	}
	if err := printProblems(out, output, problems); err != nil {
		return err
	}
	if p == nil {
		return errFindings
	}
	if output == outputText {
		limits, rules, defaults := p.File().Count()
		fmt.Fprintf(out, "%s: valid; limits: %d, rules: %d, defaults: %d\n", p.Source(), limits, rules, defaults)
	}
	return nil
}

func printProblems(out io.Writer, output string, problems []policy.Problem) error {
	if output == outputJSON {
		return printJSON(out, map[string]any{"problems": append([]policy.Problem{}, problems...)}, "  ") // not null
	}
	for _, p := range problems {
		fmt.Fprintf(out, "%s: %s\n", p.Severity, p)
	}
	return nil
}

// readPolicy reads a policy file, or standard input for "-". The policy is nil if it is invalid. The
// error reports a file that cannot be read.
func readPolicy(path string, stdin io.Reader) (*policy.Policy, []policy.Problem, error) {
	if path == "" {
		return nil, nil, errors.New("--filename: required; use - for standard input")
	}
	source, input, err := openInput(path, stdin)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = input.Close() }() // the file is only read
	text, err := io.ReadAll(io.LimitReader(input, policy.MaxFileBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading policy: %w", err)
	}
	p, problems := policy.Read(source, text, injectors.Builtin().Frameworks())
	return p, problems, nil
}

// requirePolicy reads the valid policy of a flag or an argument. It must not be standard input if stdin is nil. The
// error is a usage error and lists the problems of the file.
func requirePolicy(name, path string, stdin io.Reader) (*policy.Policy, error) {
	switch {
	case path == "":
		return nil, newUsageError(fmt.Errorf("%s: required", name))
	case path == "-" && stdin == nil:
		return nil, newUsageError(fmt.Errorf("%s: must be a file, not standard input", name))
	}
	p, problems, err := readPolicy(path, stdin)
	if err != nil {
		return nil, newUsageError(err)
	}
	if p != nil {
		return p, nil
	}
	lines := []string{name + ": the policy is invalid:"}
	for _, problem := range problems {
		if problem.Severity == policy.Mistake {
			lines = append(lines, "  "+problem.String())
		}
	}
	return nil, newUsageError(errors.New(strings.Join(lines, "\n")))
}

// policyExplainOptions are the flags of rollcall policy explain.
type policyExplainOptions struct {
	file, namespace, labels, profile, output string
}

func newPolicyExplainCommand() *cobra.Command {
	o := &policyExplainOptions{output: outputText}
	cmd := newCommand("policy-explain", o.explain)
	cmd.Args = rejectFileArguments
	addPolicyFileFlag(cmd, &o.file, "filename", "f")
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "name of the namespace")
	f.StringVar(&o.labels, "namespace-labels", "", "labels of the namespace, such as team=a,tier=free")
	f.StringVar(&o.profile, "profile", "", "profile that the workload selects")
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON, outputYAML)
	return cmd
}

func (o *policyExplainOptions) explain(cmd *cobra.Command, _ []string) error {
	if o.namespace == "" {
		return newUsageError(errors.New("--namespace: required"))
	}
	namespaceLabels, err := labels.ConvertSelectorToLabelsMap(o.labels)
	if err != nil {
		return newUsageError(fmt.Errorf("--namespace-labels: %w", err))
	}
	p, err := requirePolicy("--filename", o.file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	e := p.Explain(policy.Namespace{Name: o.namespace, Labels: namespaceLabels}, o.profile)
	if o.profile != e.Selected {
		return fmt.Errorf("--profile: workloads of the namespace %s cannot select %q; they can select: %s",
			o.namespace, o.profile, strings.Join(e.Selectable, ", "))
	}
	if o.output != outputText {
		return printObject(cmd.OutOrStdout(), o.output, e)
	}
	return printExplanation(cmd.OutOrStdout(), e)
}

// printExplanation prints a table of the entries.
func printExplanation(out io.Writer, e policy.Explanation) error {
	profile := "no profile"
	if e.Profile != "" {
		profile = "profile " + e.Profile
	}
	fmt.Fprintf(out, "Namespace %s: %s\n", e.Namespace, profile)
	if len(e.Selectable) > 0 {
		fmt.Fprintf(out, "Profiles that workloads can select: %s\n", strings.Join(e.Selectable, ", "))
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tMODE\tVALUE\tLINE")
	for _, entry := range e.Entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", entry.Name, entry.Mode, entry.Value, entry.Line)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	for _, x := range e.Exemptions {
		fmt.Fprintf(out, "\nExempt from %s until %s: %s (%s)\n", x.Rule, x.Until, strings.Join(x.Gangs, ", "), x.Reason)
	}
	return nil
}

func newPolicyVAPCommand() *cobra.Command {
	var file string
	var static bool
	output := outputYAML
	cmd := newCommand("policy-vap", func(cmd *cobra.Command, _ []string) error {
		return printAdmissionPolicies(file, static, output, cmd.InOrStdin(), cmd.OutOrStdout())
	})
	cmd.Args = rejectFileArguments
	addPolicyFileFlag(cmd, &file, "filename", "f")
	cmd.Flags().BoolVar(&static, "static", false, "names for policies that API servers read from files")
	addChoiceFlag(cmd, &output, "output", "o", "output format", outputYAML, outputJSON)
	return cmd
}

func printAdmissionPolicies(file string, static bool, output string, stdin io.Reader, out io.Writer) error {
	p, err := requirePolicy("--filename", file, stdin)
	if err != nil {
		return err
	}
	var docs []*manifest.Document
	for _, rendered := range p.RenderUnlabeled(static) {
		policyDoc, err := manifest.NewDocument(file, &rendered.Policy)
		if err != nil {
			return err
		}
		bindingDoc, err := manifest.NewDocument(file, &rendered.Binding)
		if err != nil {
			return err
		}
		docs = append(docs, policyDoc, bindingDoc)
	}
	return manifest.Write(out, manifest.Format(output), docs)
}
