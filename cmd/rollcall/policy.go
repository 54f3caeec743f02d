package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/injectors"
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
