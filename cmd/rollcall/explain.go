package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy/suite"
)

// explainOptions are the flags of rollcall explain.
type explainOptions struct {
	inject injectOptions
	output string
}

// explainedWorkload is a workload with what admission adds to it. Its JSON fields are stable.
type explainedWorkload struct {
	Object    string                  `json:"object"`
	Framework string                  `json:"framework"`
	Role      string                  `json:"role"`
	Pods      int32                   `json:"pods"`
	Size      int32                   `json:"size"`
	Additions []injectors.Explanation `json:"additions"`
}

const explainLong = `Explain what admission adds to the workloads of a file, or to sample gangs of a
framework: each value, its purpose, what happens to another value of yours, and the key
that changes it. The command does not contact a cluster.

Exit codes:
  0  success
  1  a workload would be denied; rollcall vet shows all mistakes
  2  the command is invalid, or a document cannot be read`

func newExplainCommand() *cobra.Command {
	o := explainOptions{output: outputText}
	cmd := &cobra.Command{
		Use:   "explain (-f FILE | FRAMEWORK)",
		Short: "Explain what admission adds to a workload, and why",
		Long:  explainLong,
		Example: `  rollcall explain -f job.yaml
  rollcall explain ` + injectors.Builtin()[0].Framework().Name + `
  rollcall explain -f job.yaml -o json | jq -r '.[].additions[] | select(.changedBy) | .name'`,
		Args:      allowOneArgument,
		ValidArgs: injectors.Builtin().Frameworks().Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			workloads, err := o.readWorkloads(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			return o.explain(cmd.OutOrStdout(), workloads)
		},
	}
	addFilenameFlag(cmd, &o.inject.files, "filename", "f", filenameUsage)
	o.inject.engine.addFlags(cmd)
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON, outputYAML)
	return cmd
}

// readWorkloads returns the sample workloads of a framework, or the labeled workloads of the files.
func (o *explainOptions) readWorkloads(stdin io.Reader, args []string) ([]gang.Workload, error) {
	if (len(args) == 1) == (len(o.inject.files) > 0) {
		return nil, newUsageError(errors.New("set either --filename or the name of a framework"))
	}
	if len(args) == 1 {
		if _, ok := injectors.Builtin().Frameworks().Find(args[0]); !ok {
			return nil, newUnknownFrameworkError(args[0])
		}
		return injectors.Builtin().SampleWorkloads(args[0])
	}
	docs, err := o.inject.readDocuments(stdin)
	if err != nil {
		return nil, err
	}
	workloads, err := suite.ReadWorkloads(docs, o.inject.engine.namespace, false)
	if err != nil {
		return nil, newUsageError(err)
	}
	workloads = slices.DeleteFunc(workloads, gang.Workload.OptedOut)
	if len(workloads) == 0 {
		return nil, newUsageError(errors.New("no workload has the label " + gang.LabelFramework))
	}
	return workloads, nil
}

// explain prints what admission adds to the workloads.
func (o *explainOptions) explain(out io.Writer, workloads []gang.Workload) error {
	engine, err := o.inject.engine.newEngine()
	if err != nil {
		return newUsageError(err)
	}
	var explained []explainedWorkload
	for _, w := range workloads {
		object := strings.ToLower(string(w.Kind())) + "/" + w.Meta().Name
		g, additions, err := engine.Explain(w)
		if err != nil {
			return fmt.Errorf("%s would be denied: %s", object, strings.Join(injectors.DenialCauses(err), "; "))
		}
		explained = append(explained, explainedWorkload{
			Object: object, Framework: g.Framework.Name, Role: g.Role, Pods: g.OwnMember().Size, Size: g.Size,
			Additions: additions,
		})
	}
	if o.output != outputText {
		return printObject(out, o.output, explained)
	}
	for i, w := range explained {
		if i > 0 {
			fmt.Fprintln(out)
		}
		printExplained(wrapForTerminal(out), w)
	}
	return nil
}

func printExplained(out io.Writer, w explainedWorkload) {
	fmt.Fprintf(out, "%s: %s of %s, %d of %d pods\n", w.Object, w.Role, w.Framework, w.Pods, w.Size)
	source := ""
	for _, a := range w.Additions {
		if a.Source != source {
			source = a.Source
			fmt.Fprintf(out, "\nFrom %s:\n", source)
		}
		line := a.Kind + " " + a.Name
		if a.Value != "" {
			line += ": " + a.Value
		}
		if a.Container != "" {
			line += ", container " + a.Container
		}
		why := a.Reason
		if a.OtherValue != "" {
			why += "; another value: " + a.OtherValue
		}
		if a.ChangedBy != "" {
			why += "; to change it: " + a.ChangedBy
		}
		fmt.Fprintf(out, "  %s\n      %s\n", line, why)
	}
}
