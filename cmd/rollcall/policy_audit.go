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

const policyAuditLong = `Compare the workloads of a cluster, or of files, with a policy. The command prints only
findings of the policy. The workloads of a cluster are judged as they are. Those of files
get the defaults of the policy and the injection first. The command needs permission to
list Jobs, StatefulSets and, for profiles that select labels, namespaces.

Without --policy, the policy is the one in force: the last valid policy of the cluster, up
to the ceiling of the installation. This needs permission to list the Deployments and to
read the ConfigMaps of the installation.

Exit codes:
  0  no finding has the severity of --fail-on or a higher one
  1  at least one finding has the severity of --fail-on or a higher one
  2  the command or the policy is invalid, or a document or the cluster cannot be read`

func newPolicyAuditCommand() *cobra.Command {
	o := policyAuditOptions{vet: vetOptions{output: outputText, failOn: string(vet.Error)}}
	cmd := &cobra.Command{
		Use:   "audit [--policy FILE] (-f FILE | --cluster)",
		Short: "Compare the workloads of a cluster or of files with a policy",
		Long:  policyAuditLong,
		Example: `  rollcall policy audit --cluster -A
  rollcall policy audit --policy policy.yaml --cluster -A
  rollcall policy audit --policy policy.yaml -f manifests/ -o sarif`,
		Args: rejectFileArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.vet.commandPath = programName + " vet"
			return o.audit(cmd)
		},
	}
	addPolicyFileFlag(cmd, &o.policy, "policy", "")
	cmd.Flags().Lookup("policy").Usage += " (default with --cluster: the policy in force)"
	cmd.Flags().StringVar(&o.releaseNamespace, "release-namespace", "",
		"namespace of the installation with the policy in force (default: found by its labels)")
	o.input.addFlags(cmd)
	addChoiceFlag(cmd, &o.vet.output, "output", "o", "output format", outputText, outputJSON, outputSARIF)
	severities := []string{string(vet.Error), string(vet.Warning), string(vet.Info), failOnNever}
	addChoiceFlag(cmd, &o.vet.failOn, "fail-on", "", "lowest severity that causes exit code 1", severities...)
	return cmd
}

func (o policyAuditOptions) audit(cmd *cobra.Command) error {
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
func (o policyAuditOptions) readPolicy(ctx context.Context, stdin io.Reader, stderr io.Writer) (*policy.Policy, error) {
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
