package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/internal/vet"
)

// policyAuditOptions are the flags of rollcall policy audit.
type policyAuditOptions struct {
	policy string
	input  policyInput
	vet    vetOptions
}

const policyAuditLong = `Compare the workloads of a cluster, or of files, with a policy. The command prints only
findings of the policy. The workloads of a cluster are judged as they are. Those of files
get the defaults of the policy and the injection first. The command needs permission to
list Jobs, StatefulSets and, for profiles that select labels, namespaces.

Exit codes:
  0  no finding has the severity of --fail-on or a higher one
  1  at least one finding has the severity of --fail-on or a higher one
  2  the command or the policy is invalid, or a document or the cluster cannot be read`

func newPolicyAuditCommand() *cobra.Command {
	o := policyAuditOptions{vet: vetOptions{output: outputText, failOn: string(vet.Error)}}
	cmd := &cobra.Command{
		Use:   "audit --policy FILE (-f FILE | --cluster)",
		Short: "Compare the workloads of a cluster or of files with a policy",
		Long:  policyAuditLong,
		Example: `  rollcall policy audit --policy policy.yaml --cluster -A
  rollcall policy audit --policy policy.yaml -f manifests/ -o sarif`,
		Args: rejectFileArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.vet.commandPath = programName + " vet"
			return o.audit(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	addPolicyFileFlag(cmd, &o.policy, "policy", "")
	o.input.addFlags(cmd)
	addChoiceFlag(cmd, &o.vet.output, "output", "o", "output format", outputText, outputJSON, outputSARIF)
	severities := []string{string(vet.Error), string(vet.Warning), string(vet.Info), failOnNever}
	addChoiceFlag(cmd, &o.vet.failOn, "fail-on", "", "lowest severity that causes exit code 1", severities...)
	return cmd
}

func (o policyAuditOptions) audit(ctx context.Context, stdin io.Reader, out io.Writer) error {
	if o.policy == "-" && slices.Contains(o.input.files, "-") {
		return newUsageError(errors.New("--policy and --filename: only one of them can be standard input; use a file"))
	}
	p, err := requirePolicyFrom("--policy", o.policy, stdin)
	if err != nil {
		return err
	}
	docs, err := o.input.read(ctx, stdin)
	if err != nil {
		return err
	}
	report := vet.Run(docs, nil, vet.Options{
		Engine: newSuiteOptions(nil).Engine, Namespace: o.input.cluster.namespace, Policy: p,
		Now: clock.RealClock{}.Now(), Admitted: o.input.fromCluster,
		Only: []vet.Code{vet.CodePolicyViolated, vet.CodeDenied, vet.CodeUndecodable},
	})
	return o.vet.printAndJudge(out, report, 0)
}
