package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/policy/suite"
)

// policyTestOptions are the flags of rollcall policy test.
type policyTestOptions struct {
	coverage bool
	output   string
}

func newPolicyTestCommand() *cobra.Command {
	o := &policyTestOptions{coverage: true, output: outputText}
	cmd := newCommand("policy-test", o.runSuites)
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.Flags().BoolVar(&o.coverage, "coverage", true, "failure if a rule has no passing or no failing case")
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON)
	return cmd
}

// suiteResult is the JSON format of the result of a file with test cases.
type suiteResult struct {
	Source string             `json:"source"`
	Cases  []suite.CaseResult `json:"cases"`
}

// coverageResult is the JSON format of the coverage of a policy.
type coverageResult struct {
	Policy string      `json:"policy"`
	Rules  int         `json:"rules"`
	Gaps   []suite.Gap `json:"gaps"`

	outcomes []suite.Outcome // of all files
}

// runSuites runs all files and prints the results. The coverage is that of all files of one policy.
func (o *policyTestOptions) runSuites(cmd *cobra.Command, names []string) error {
	paths, err := listSuites(names)
	if err != nil {
		return newUsageError(err)
	}
	var results []suiteResult
	var covered []*coverageResult
	for _, path := range paths {
		s, err := readSuite(path)
		if err != nil {
			return newUsageError(err)
		}
		policyPath := filepath.Join(filepath.Dir(path), s.Policy)
		p, err := requirePolicy(path, policyPath, nil)
		if err != nil {
			return err
		}
		cases, outcomes, err := s.Run(newSuiteOptions(p), newFileReader(filepath.Dir(path)))
		if err != nil {
			return newUsageError(fmt.Errorf("%s: %w", path, err))
		}
		results = append(results, suiteResult{Source: path, Cases: cases})
		if !o.coverage {
			continue
		}
		i := slices.IndexFunc(covered, func(c *coverageResult) bool { return c.Policy == policyPath })
		if i < 0 {
			i, covered = len(covered), append(covered, &coverageResult{Policy: policyPath, Rules: len(p.EnabledRules())})
		}
		covered[i].outcomes = append(covered[i].outcomes, outcomes...)
		covered[i].Gaps = suite.Cover(p, covered[i].outcomes)
	}
	return o.printSuites(cmd.OutOrStdout(), results, covered)
}

// newFileReader returns the function that reads the manifests of a case, whose paths are relative to a directory.
func newFileReader(directory string) suite.ReadFiles {
	return func(names []string) ([]*manifest.Document, error) {
		var paths []string
		for _, name := range names {
			paths = append(paths, filepath.Join(directory, name))
		}
		return readValidManifests(paths, strings.NewReader(""))
	}
}

// newSuiteOptions returns the options for a policy at the current time.
func newSuiteOptions(p *policy.Policy) suite.Options {
	return suite.Options{
		Engine: injectors.NewEngine(injectors.Builtin(), gang.Config{}), Policy: p, Now: clock.RealClock{}.Now(),
	}
}

func readSuite(path string) (suite.Suite, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return suite.Suite{}, fmt.Errorf("opening test cases: %w", err)
	}
	return suite.Read(path, text)
}

// listSuites returns the files, and those of the kind GangPolicyTest in the directories.
func listSuites(names []string) ([]string, error) {
	var suites []string
	for _, name := range names {
		paths, err := listManifestFiles(name)
		if err != nil {
			return nil, err
		}
		before := len(suites)
		for _, path := range paths {
			ok, err := isSuite(path)
			if err != nil {
				return nil, err
			}
			if ok || path == name {
				suites = append(suites, path)
			}
		}
		if len(suites) == before {
			return nil, fmt.Errorf("directory %s has no file of the kind %s", name, suite.Kind)
		}
	}
	return suites, nil
}

// isSuite reports whether a file contains the kind of test cases. Others can be manifests and templates.
func isSuite(path string) (bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("opening test cases: %w", err)
	}
	return bytes.Contains(text, []byte("kind: "+suite.Kind)) || bytes.Contains(text, []byte(`"`+suite.Kind+`"`)), nil
}

// printSuites prints the results. The error determines the exit code.
func (o *policyTestOptions) printSuites(out io.Writer, results []suiteResult, covered []*coverageResult) error {
	cases, failed, gaps := 0, 0, 0
	for _, r := range results {
		for _, c := range r.Cases {
			cases++
			if len(c.Differences) > 0 {
				failed++
			}
		}
	}
	for _, c := range covered {
		gaps += len(c.Gaps)
	}
	var err error
	if o.output == outputJSON {
		err = printJSON(out, map[string]any{"suites": results, "coverage": covered}, "  ")
	} else {
		printSuitesAsText(out, results, covered)
		fmt.Fprintf(out, "%s, %d failed\n", gang.FormatCount(cases, "case"), failed)
	}
	if err == nil && failed+gaps > 0 {
		return errFindings
	}
	return err
}

func printSuitesAsText(out io.Writer, results []suiteResult, covered []*coverageResult) {
	for _, r := range results {
		for _, c := range r.Cases {
			if len(c.Differences) == 0 {
				continue
			}
			fmt.Fprintf(out, "FAIL %s: %s\n", r.Source, c.Name)
			for _, d := range c.Differences {
				fmt.Fprintln(out, "     "+d)
			}
		}
	}
	for _, c := range covered {
		for _, gap := range c.Gaps {
			missing := strings.Join(gap.Missing, " or ")
			fmt.Fprintf(out, "FAIL %s: %s has no case with the outcome %s\n", c.Policy, gap.Rule, missing)
		}
		fmt.Fprintf(out, "%s: %d of %s covered\n", c.Policy, c.Rules-len(c.Gaps), gang.FormatCount(c.Rules, "rule"))
	}
}
