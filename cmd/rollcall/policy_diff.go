package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/internal/policy/suite"
)

// policyDiffOptions are the flags of rollcall policy diff.
type policyDiffOptions struct {
	input  policyInput
	output string
}

func newPolicyDiffCommand() *cobra.Command {
	o := &policyDiffOptions{output: outputText}
	cmd := newCommand("policy-diff", o.diff)
	cmd.Args = cobra.ExactArgs(2)
	o.input.addFlags(cmd)
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON)
	return cmd
}

func (o *policyDiffOptions) diff(cmd *cobra.Command, args []string) error {
	before, err := requirePolicy(args[0], args[0], nil)
	if err != nil {
		return err
	}
	after, err := requirePolicy(args[1], args[1], nil)
	if err != nil {
		return err
	}
	docs, err := o.input.read(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return err
	}
	options := newSuiteOptions(nil)
	options.Admitted = o.input.fromCluster
	options.Namespaces = suite.ReadNamespaces(docs)
	workloads, err := suite.ReadWorkloads(docs, o.input.cluster.namespace, false)
	if err != nil {
		return newUsageError(err)
	}
	changes := suite.Compare(options, before, after, workloads)
	if o.output == outputJSON {
		list := append([]suite.Change{}, changes...) // not null
		err = printJSON(cmd.OutOrStdout(), map[string]any{"workloads": len(workloads), "changes": list}, "  ")
	} else {
		printChanges(cmd.OutOrStdout(), len(workloads), changes)
	}
	if err == nil && len(changes) > 0 {
		return errFindings
	}
	return err
}

// effectTexts are the texts of effects.
var effectTexts = map[suite.Effect]string{
	suite.NewlyDenied:   "is denied by the new policy only",
	suite.NewlyAdmitted: "is denied by the old policy only",
	suite.OtherFindings: "has other findings",
	suite.OtherDefaults: "gets other defaults",
}

func printChanges(out io.Writer, workloads int, changes []suite.Change) {
	for _, c := range changes {
		fmt.Fprintf(out, "%s %s\n", c.After, effectTexts[c.Effect])
		if c.Effect != suite.OtherDefaults {
			fmt.Fprintf(out, "  old: %s\n  new: %s\n", c.Before.Describe(), c.After.Describe())
		}
		if len(c.Fields) > 0 {
			fmt.Fprintf(out, "  fields: %s\n", strings.Join(c.Fields, ", "))
		}
	}
	fmt.Fprintf(out, "%s, %d treated differently\n", gang.FormatCount(workloads, "workload"), len(changes))
}
