package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy/suite"
	"rollcall.training/internal/roster/cluster"
)

// explainOptions are the flags of rollcall explain.
type explainOptions struct {
	inject  injectOptions
	cluster clusterFlags
	output  string
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

func newExplainCommand() *cobra.Command {
	o := explainOptions{output: outputText}
	cmd := newCommand("explain", func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && strings.Contains(args[0], "/") && len(o.inject.files) == 0 {
			const reason = "must not be set for an object, which the webhook of the cluster admitted"
			if err := rejectFlags(cmd, engineFlagNames, reason); err != nil {
				return err
			}
			client, namespace, err := o.cluster.connect()
			if err != nil {
				return err
			}
			return o.explainObject(cmd.Context(), client, namespace, args[0], cmd.OutOrStdout())
		}
		if err := rejectFlags(cmd, clusterFlagNames, "requires KIND/NAME"); err != nil {
			return err
		}
		o.inject.engine.namespace = cmp.Or(o.cluster.namespace, metav1.NamespaceDefault)
		workloads, err := o.readWorkloads(cmd.InOrStdin(), args)
		if err != nil {
			return err
		}
		return o.explainWorkloads(workloads, cmd.OutOrStdout())
	})
	cmd.Args = allowOneArgument
	addFilenameFlag(cmd, &o.inject.files, "filename", "f", filenameUsage)
	o.inject.engine.addFlagsWithCluster(cmd, &o.cluster)
	cmd.ValidArgsFunction = o.cluster.completeWorkload
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON, outputYAML)
	return cmd
}

// workloadKinds are the kinds of the objects that the command explains, by the names that kubectl accepts.
var workloadKinds = map[string]gang.Kind{
	"job": gang.Job, "jobs": gang.Job,
	"statefulset": gang.StatefulSet, "statefulsets": gang.StatefulSet, "sts": gang.StatefulSet,
}

// parseWorkloadName returns the parts of KIND/NAME; false for other kinds than those of workloads, and without a name.
func parseWorkloadName(object string) (kind gang.Kind, name string, ok bool) {
	kindName, name, _ := cutObjectName(object)
	kind, ok = workloadKinds[kindName]
	return kind, name, ok && name != ""
}

// cutObjectName returns the parts of KIND/NAME or KIND. The kind is in lowercase and has no group, such as jobs for
// Jobs.batch.
func cutObjectName(object string) (kind, name string, hasName bool) {
	kind, name, hasName = strings.Cut(object, "/")
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	return kind, name, hasName
}

// explainObject prints what admission added to KIND/NAME of a cluster.
func (o *explainOptions) explainObject(
	ctx context.Context, client kubernetes.Interface, namespace, object string, out io.Writer,
) error {
	kind, name, ok := parseWorkloadName(object)
	if !ok {
		return newUsageError(fmt.Errorf("%q: use job/NAME or statefulset/NAME", object))
	}
	w, err := cluster.GetWorkload(ctx, client, kind, namespace, name)
	if err != nil {
		return err
	}
	if !w.IsInjected() {
		return fmt.Errorf("%s in namespace %s was not injected: it has no label %s, or no webhook of Rollcall "+
			"admitted it; rollcall check finds the cause", object, namespace, gang.LabelFramework)
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	return o.explain(engine.ExplainAdmitted, []gang.Workload{w}, "cannot be explained by this version", out)
}

// readWorkloads returns the sample workloads of a framework, or the labeled workloads of the files.
func (o *explainOptions) readWorkloads(stdin io.Reader, args []string) ([]gang.Workload, error) {
	if (len(args) == 1) == (len(o.inject.files) > 0) {
		return nil, newUsageError(errors.New(
			"set one of --filename, the name of a framework, and the kind and name of an object, such as job/train"))
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

// explainWorkloads prints what admission would add to workloads.
func (o *explainOptions) explainWorkloads(workloads []gang.Workload, out io.Writer) error {
	engine, err := o.inject.engine.newEngine()
	if err != nil {
		return newUsageError(err)
	}
	return o.explain(engine.Explain, workloads, "would be denied", out)
}

// explain prints the explanations of workloads. The text problem describes a workload that has none.
func (o *explainOptions) explain(
	explain func(gang.Workload) (gang.Gang, []injectors.Explanation, error),
	workloads []gang.Workload, problem string, out io.Writer,
) error {
	var explained []explainedWorkload
	for _, w := range workloads {
		object := objectName(w)
		g, additions, err := explain(w)
		if err != nil {
			return fmt.Errorf("%s %s: %s", object, problem, strings.Join(injectors.DenialCauses(err), "; "))
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

// objectName returns the kind and the name of a workload, such as job/train.
func objectName(w gang.Workload) string {
	return w.Kind().ObjectName(cmp.Or(w.Meta().Name, w.Meta().GenerateName))
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
		if a.Edited {
			why += "; changed or removed since admission"
		}
		fmt.Fprintf(out, "  %s\n      %s\n", line, why)
	}
}
