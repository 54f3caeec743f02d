package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/internal/inspect"
)

// watchInterval is the minimum time between two updates of status --watch.
const watchInterval = time.Second

// statusOptions are the flags of rollcall status.
type statusOptions struct {
	cluster clusterFlags
	watch   bool
	nodes   bool
	output  string // text, json or yaml
	// logRank is the rank whose log is shown; nil for none.
	logRank *int32
	clock   clock.PassiveClock
}

func newStatusCommand() *cobra.Command {
	o := statusOptions{clock: clock.RealClock{}, output: outputText}
	logRank := int32(0)
	cmd := newCommand("status", func(cmd *cobra.Command, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		if cmd.Flags().Changed("log-rank") {
			o.logRank = &logRank
		}
		if err := o.validateFlags(name); err != nil {
			return newUsageError(err)
		}
		reader, err := o.cluster.newReader()
		if err != nil {
			return err
		}
		return o.runStatus(cmd.Context(), reader, name, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	cmd.Args = allowOneArgument
	cmd.ValidArgsFunction = o.cluster.completeGang
	o.cluster.addFlags(cmd)
	o.cluster.addAllNamespacesFlag(cmd.Flags(), "gangs")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "updates until the gang succeeds or fails, or of all gangs")
	cmd.Flags().BoolVar(&o.nodes, "nodes", false, "nodes on which gangs failed first")
	cmd.Flags().Int32Var(&logRank, "log-rank", 0, "rank whose log a terminal shows with --watch (default: none)")
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON, outputYAML)
	return cmd
}

// validateFlags returns an error for flags that contradict each other or the name. An empty name
// means all gangs.
func (o *statusOptions) validateFlags(name string) error {
	if name != "" && o.cluster.allNamespaces {
		return errors.New("--all-namespaces: must not be set with the name of a gang; use --namespace")
	}
	if o.nodes && (name != "" || o.watch) {
		return errors.New("--nodes: must not be set with the name of a gang or with --watch")
	}
	if o.logRank != nil && (!o.watch || name == "") {
		return errors.New("--log-rank: needs --watch and the name of a gang")
	}
	return nil
}

func (o *statusOptions) runStatus(
	ctx context.Context, reader inspect.Reader, name string, stdout, stderr io.Writer,
) error {
	switch {
	case o.nodes:
		return o.listNodes(ctx, reader, stdout, stderr)
	case o.watch:
		return o.watchStatus(ctx, reader, name, stdout)
	case name == "":
		return o.listGangs(ctx, reader, stdout, stderr)
	}
	g, err := reader.GetGang(ctx, name)
	if err != nil {
		return err
	}
	reader.AddDetails(ctx, &g)
	if o.output != outputText {
		return printObject(stdout, o.output, g)
	}
	inspect.PrintGang(stdout, o.printOptions(stdout), g)
	return nil
}

func (o *statusOptions) listGangs(ctx context.Context, reader inspect.Reader, stdout, stderr io.Writer) error {
	gangs, err := reader.ListGangs(ctx)
	if err != nil {
		return err
	}
	if o.output != outputText {
		return printObject(stdout, o.output, append([]inspect.Gang{}, gangs...)) // [] instead of null
	}
	if len(gangs) == 0 {
		fmt.Fprintf(stderr, "no gangs found %s: no Job or StatefulSet has the label %s\n",
			o.scope(reader), gang.LabelFramework)
		return nil
	}
	inspect.PrintGangs(stdout, o.printOptions(stdout), gangs, o.cluster.allNamespaces)
	return nil
}

// listNodes shows the nodes on which gangs failed first.
func (o *statusOptions) listNodes(ctx context.Context, reader inspect.Reader, stdout, stderr io.Writer) error {
	gangs, err := reader.ListGangs(ctx)
	if err != nil {
		return err
	}
	failures := inspect.ListNodeFailures(gangs, o.clock.Now())
	switch {
	case o.output != outputText:
		return printObject(stdout, o.output, append([]inspect.NodeFailure{}, failures...)) // [] instead of null
	case len(failures) == 0:
		fmt.Fprintf(stderr, "no gang %s avoids a node or failed first because of one\n", o.scope(reader))
	default:
		inspect.PrintNodeFailures(stdout, o.printOptions(stdout), failures)
	}
	return nil
}

// scope describes the namespaces of the gangs.
func (o *statusOptions) scope(reader inspect.Reader) string {
	if o.cluster.allNamespaces {
		return "in any namespace"
	}
	return "in namespace " + reader.Namespace
}

func (o *statusOptions) printOptions(out io.Writer) inspect.PrintOptions {
	width, _, isTerminal := terminalSize(out)
	return inspect.PrintOptions{Now: o.clock.Now(), TimeZone: time.Local, Color: useColor(isTerminal), Width: width}
}
