package main

import (
	"io"

	"github.com/spf13/cobra"

	"rollcall.training/internal/manifest"
)

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
