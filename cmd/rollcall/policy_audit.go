package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/internal/check"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/vet"
)

// policyAuditOptions are the flags of rollcall policy audit.
type policyAuditOptions struct {
	policy           string
	releaseNamespace string
	input            policyInput
	vet              vetOptions
}

func newPolicyAuditCommand() *cobra.Command {
	o := &policyAuditOptions{
		vet: vetOptions{output: outputText, failOn: string(vet.Error), commandPath: programName + " vet"},
	}
	cmd := newCommand("policy-audit", o.audit)
	cmd.Args = rejectFileArguments
	addPolicyFileFlag(cmd, &o.policy, "policy", "")
	cmd.Flags().Lookup("policy").Usage += " (default with --cluster: the policy in force)"
	cmd.Flags().StringVar(&o.releaseNamespace, "release-namespace", "",
		"namespace of the installation with the policy in force (default: found by its labels)")
	o.input.addFlags(cmd)
	o.vet.addReportFlags(cmd)
	return cmd
}

func (o *policyAuditOptions) audit(cmd *cobra.Command, _ []string) error {
	ctx, stdin := cmd.Context(), cmd.InOrStdin()
	if o.policy == "-" && slices.Contains(o.input.files, "-") {
		return newUsageError(errors.New("--policy and --filename: only one of them can be standard input; use a file"))
	}
	p, err := o.readPolicy(ctx, stdin, cmd.ErrOrStderr())
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
	return o.vet.printAndJudge(cmd.OutOrStdout(), report, 0)
}

// readPolicy returns the policy of the flag, or the policy in force in the cluster, whose place it prints.
func (o *policyAuditOptions) readPolicy(
	ctx context.Context, stdin io.Reader, stderr io.Writer,
) (*policy.Policy, error) {
	if o.policy != "" || !o.input.fromCluster {
		return requirePolicy("--policy", o.policy, stdin)
	}
	config, _, err := o.input.cluster.loadConfig()
	if err != nil {
		return nil, newUsageError(err)
	}
	reader, err := check.NewReader(config)
	if err != nil {
		return nil, newUsageError(err)
	}
	reader.ReleaseNamespace = o.releaseNamespace
	p, place, err := reader.ReadPolicyInForce(ctx)
	if err != nil {
		return nil, newUsageError(fmt.Errorf("--policy: reading the policy in force: %w; set --policy FILE", err))
	}
	fmt.Fprintf(stderr, "policy in force: ConfigMap %s\n", place)
	return p, nil
}
