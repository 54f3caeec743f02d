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

const statusLong = `Show the gangs of a namespace with their phases, restarts and ready ranks.

With a name, show one gang in detail: its members, the state of each rank, why ranks
are not ready, the first failure, and the latest Events. The name is that of a gang
or of one of its workloads.

The command needs permission to list Jobs, StatefulSets and pods. It shows Events if
you are allowed to list them. For a gang with the annotation progress-pattern, it reads
the end of the log of rank 0, and shows the step and the time that is left.

With --nodes, show the nodes on which gangs failed first within 24 hours, if the hardware
can be the cause, and which of them a gang avoids. A node is a suspect if gangs of two
namespaces failed first on it, so suspects require --all-namespaces.

With --watch, the command follows one gang until the gang succeeds or fails, or all
gangs until you interrupt it. A terminal shows the current state, which changes in
place at most once a second. Otherwise, the command prints a line for each change.
With --log-rank, the terminal also shows the last lines of the log of a rank. The command
reads them every 3 seconds, if you are allowed to read logs.

Exit codes:
  0  success; with --watch, the gang succeeded
  1  the gang does not exist, or the command failed; with --watch, the gang failed
  2  the command is invalid
  130  the command was interrupted while it showed the state on a terminal
  143  the command was terminated while it showed the state on a terminal`

func newStatusCommand() *cobra.Command {
	o := statusOptions{clock: clock.RealClock{}, output: outputText}
	logRank := int32(0)
	cmd := &cobra.Command{
		Use:   "status [GANG]",
		Short: "Show the gangs of a namespace, or the ranks of one gang",
		Long:  statusLong,
		Example: `  rollcall status
  rollcall status train --watch
  rollcall status train --watch --log-rank 0
  rollcall status --watch --all-namespaces
  rollcall status --nodes --all-namespaces
  rollcall status train -o json | jq '.ranks[] | select(.state == "failed")'`,
		Args: allowOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
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
		},
	}
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
	reader.AddProgress(ctx, &g)
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
