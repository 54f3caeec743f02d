package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"rollcall.training/internal/policy"
)

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
