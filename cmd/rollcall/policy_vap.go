package main

import (
	"io"

	"github.com/spf13/cobra"

	"rollcall.training/internal/manifest"
)

const policyVAPLong = `Print ValidatingAdmissionPolicies and their bindings for the workloads that the webhook
of Rollcall never receives: those of the section unlabeled of the policy. The Helm chart
creates the same objects. The command does not contact a cluster.

With --static, the names end with .static.k8s.io. API servers read these policies from
files (KEP-5793).

Exit codes:
  0  success; the section can be empty
  2  the command or the policy is invalid`

func newPolicyVAPCommand() *cobra.Command {
	var file string
	var static bool
	output := outputYAML
	cmd := &cobra.Command{
		Use:     "vap -f FILE",
		Short:   "Print ValidatingAdmissionPolicies for unlabeled workloads",
		Long:    policyVAPLong,
		Example: "  " + programName + " policy vap -f policy.yaml | kubectl apply -f -",
		Args:    rejectFileArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAdmissionPolicies(file, static, output, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
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
