package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

func newPolicyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check policies for gangs",
		Long: `Check the policies that limit the gangs of a cluster. To check manifests against a
policy, use vet --policy.`,
	}
	cmd.AddCommand(newPolicyCheckCommand())
	return cmd
}

const policyCheckLong = `Check a policy file: unknown fields, limits that no gang satisfies, expressions that do
not compile, profiles that are never used. The command does not contact a cluster.

Exit codes:
  0  the policy is valid; advice about parts without an effect can be printed
  1  the policy is invalid
  2  the command is invalid, or the file cannot be read`

func newPolicyCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "check -f FILE",
		Short:   "Check a policy file",
		Long:    policyCheckLong,
		Example: "  " + programName + " policy check -f policy.yaml",
		Args:    rejectFileArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return newUsageError(errors.New("--filename: required; use - for standard input"))
			}
			return checkPolicy(file, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "policy file, or - for standard input")
	mustMarkFilename(cmd, "filename", "yaml", "yml")
	return cmd
}

// checkPolicy prints the problems of a policy file.
func checkPolicy(path string, stdin io.Reader, out io.Writer) error {
	p, problems, err := readPolicy(path, stdin)
	if err != nil {
		return newUsageError(err)
	}
	for _, problem := range problems {
		kind := "error"
		if problem.Advice {
			kind = "advice"
		}
		fmt.Fprintf(out, "%s: %s\n", kind, problem)
	}
	if p == nil {
		return exitError{error: errors.New(""), code: 1}
	}
	return nil
}

// readPolicy reads a policy file, or standard input for "-". The policy is nil if it is invalid. The
// error reports a file that cannot be read.
func readPolicy(path string, stdin io.Reader) (*policy.Policy, []policy.Problem, error) {
	source, input := "standard input", stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("opening policy: %w", err)
		}
		defer func() { _ = f.Close() }() // the file is only read
		source, input = path, f
	}
	text, err := io.ReadAll(io.LimitReader(input, policy.MaxFileBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading policy: %w", err)
	}
	p, problems := policy.Read(source, text, injectors.Builtin().Frameworks())
	return p, problems, nil
}

// requirePolicy reads the valid policy of a flag. The error lists the problems of the file.
func requirePolicy(path string) (*policy.Policy, error) {
	p, problems, err := readPolicy(path, strings.NewReader("")) // standard input contains manifests
	if err != nil || p != nil {
		return p, err
	}
	lines := []string{"--policy: the policy is invalid:"}
	for _, problem := range problems {
		if !problem.Advice {
			lines = append(lines, "  "+problem.String())
		}
	}
	return nil, errors.New(strings.Join(lines, "\n"))
}
