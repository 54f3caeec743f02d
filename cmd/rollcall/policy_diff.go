package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/verdict"
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
	before, err := requirePolicy(oldPath, oldPath)
	if err != nil {
		return err
	}
	after, err := requirePolicy(newPath, newPath)
	if err != nil {
		return err
	}
	docs, err := o.input.read(ctx, stdin)
	if err != nil {
		return err
	}
	options := newVerdictOptions(nil)
	options.Admitted = o.input.fromCluster
	var workloads []gang.Workload
	options.Namespaces, workloads, err = decodeInput(docs, o.input.cluster.namespace)
	if err != nil {
		return newUsageError(err)
	}
	changes := verdict.Compare(options, before, after, workloads)
	if o.output == outputJSON {
		list := append([]verdict.Change{}, changes...) // not null
		err = printJSON(out, map[string]any{"workloads": len(workloads), "changes": list}, "  ")
	} else {
		printChanges(out, len(workloads), changes)
	}
	if err == nil && len(changes) > 0 {
		return errFindings
	}
	return err
}

// decodeInput returns the labels of the namespaces and the labeled workloads of documents, among them the
// Jobs of CronJobs.
func decodeInput(
	docs []*manifest.Document, namespace string,
) (namespaces map[string]map[string]string, workloads []gang.Workload, err error) {
	namespaces = map[string]map[string]string{}
	for _, d := range docs {
		for _, object := range d.Objects() {
			if object.Kind == "Namespace" {
				namespaces[object.Name] = object.Labels
			}
			object, _ = object.JobOfCronJob()
			if !object.HasFrameworkLabel() {
				continue
			}
			w, _, isWorkload, err := object.DecodeWorkload()
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", d, err)
			}
			if !isWorkload {
				continue
			}
			if w.Meta().Namespace == "" {
				w.Meta().Namespace = namespace
			}
			if w.Meta().Namespace == "" {
				w.Meta().Namespace = "default"
			}
			workloads = append(workloads, w)
		}
	}
	return namespaces, workloads, nil
}

// effectTexts are the texts of effects.
var effectTexts = map[verdict.Effect]string{
	verdict.NewlyDenied:   "is denied by the new policy only",
	verdict.NewlyAdmitted: "is denied by the old policy only",
	verdict.OtherFindings: "has other findings",
	verdict.OtherDefaults: "gets other defaults",
}

func printChanges(out io.Writer, workloads int, changes []verdict.Change) {
	for _, c := range changes {
		fmt.Fprintf(out, "%s %s\n", c.After, effectTexts[c.Effect])
		if c.Effect != verdict.OtherDefaults {
			fmt.Fprintf(out, "  old: %s\n  new: %s\n", c.Before.Describe(), c.After.Describe())
		}
		if len(c.Fields) > 0 {
			fmt.Fprintf(out, "  fields: %s\n", strings.Join(c.Fields, ", "))
		}
	}
	fmt.Fprintf(out, "%s, %d treated differently\n", gang.FormatCount(workloads, "workload"), len(changes))
}

// errNoPolicyInput is the error of a command without workloads.
var errNoPolicyInput = errors.New("--filename or --cluster: one of them is required; use -f - for standard input")
