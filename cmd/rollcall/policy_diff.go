package main

import (
	"context"
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

const policyDiffLong = `Compare two versions of a policy: print the workloads that only one of them denies, that
violate other rules, or that get other defaults. The workloads are those of the files,
or with --cluster those of a cluster, which get no defaults. A CronJob of a file is compared
by the Job of one run, whose name ends with -00000000.

Exit codes:
  0  both policies treat all workloads in the same way
  1  a workload is treated differently
  2  the command or a policy is invalid, or a document or the cluster cannot be read`

func newPolicyDiffCommand() *cobra.Command {
	o := policyDiffOptions{output: outputText}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW (-f FILE | --cluster)",
		Short: "Show the workloads that two policies treat differently",
		Long:  policyDiffLong,
		Example: `  rollcall policy diff old.yaml new.yaml -f manifests/
  rollcall policy diff old.yaml new.yaml --cluster -A`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.diff(cmd.Context(), args[0], args[1], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	o.input.addFlags(cmd)
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON)
	return cmd
}

func (o policyDiffOptions) diff(ctx context.Context, oldPath, newPath string, stdin io.Reader, out io.Writer) error {
	before, err := requirePolicy(oldPath, oldPath, nil)
	if err != nil {
		return err
	}
	after, err := requirePolicy(newPath, newPath, nil)
	if err != nil {
		return err
	}
	docs, err := o.input.read(ctx, stdin)
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
		err = printJSON(out, map[string]any{"workloads": len(workloads), "changes": list}, "  ")
	} else {
		printChanges(out, len(workloads), changes)
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
