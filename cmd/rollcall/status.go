package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/lifecycle"
)

// watchInterval is the minimum time between two updates of status --watch.
const watchInterval = time.Second

// statusOptions are the flags of rollcall status.
type statusOptions struct {
	cluster clusterFlags
	watch   bool
	output  string
	clock   clock.PassiveClock
}

const statusLong = `Show the gangs of a namespace with their phases, restarts and ready ranks.

With a name, show one gang in detail: its members, the state of each rank, why ranks
are not ready, the first failure, and the latest Events. The name is that of a gang
or of one of its workloads.

The command needs permission to list Jobs, StatefulSets and pods. It shows Events if
you are allowed to list them.

With --watch, the command follows one gang until the gang succeeds or fails.

Exit codes:
  0  success; with --watch, the gang succeeded
  1  the gang does not exist, or the command failed; with --watch, the gang failed
  2  the command is invalid`

func newStatusCommand() *cobra.Command {
	o := statusOptions{clock: clock.RealClock{}, output: outputText}
	cmd := &cobra.Command{
		Use:   "status [GANG]",
		Short: "Show the gangs of a namespace, or the ranks of one gang",
		Long:  statusLong,
		Example: `  rollcall status
  rollcall status train --watch
  rollcall status train -o json | jq '.ranks[] | select(.state == "failed")'`,
		Args: allowOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
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
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "updates until the gang succeeds or fails")
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputText, outputJSON, outputYAML)
	return cmd
}

// validateFlags returns an error for flags that contradict each other or the name. An empty name
// means all gangs.
func (o *statusOptions) validateFlags(name string) error {
	switch {
	case name != "" && o.cluster.allNamespaces:
		return errors.New("--all-namespaces: must not be set with the name of a gang; use --namespace")
	case name == "" && o.watch:
		return fmt.Errorf("--watch: requires the name of a gang; to watch all gangs, run kubectl get jobs -L %s --watch",
			gang.LabelPhase)
	}
	return nil
}

func (o *statusOptions) runStatus(
	ctx context.Context, reader inspect.Reader, name string, stdout, stderr io.Writer,
) error {
	switch {
	case name == "":
		return o.listGangs(ctx, reader, stdout, stderr)
	case o.watch:
		return o.watchGang(ctx, reader, name, stdout)
	}
	g, err := reader.GetGang(ctx, name)
	if err != nil {
		return err
	}
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
		scope := "in namespace " + reader.Namespace
		if o.cluster.allNamespaces {
			scope = "in any namespace"
		}
		fmt.Fprintf(stderr, "no gangs found %s: no Job or StatefulSet has the label %s\n", scope, gang.LabelFramework)
		return nil
	}
	inspect.PrintGangs(stdout, o.printOptions(stdout), gangs, o.cluster.allNamespaces)
	return nil
}

// watchGang prints a gang after each change until it succeeds or fails. The error of a failed gang
// results in exit code 1.
func (o *statusOptions) watchGang(ctx context.Context, reader inspect.Reader, name string, stdout io.Writer) error {
	var printed []byte
	return reader.Watch(ctx, name, watchInterval, func(g inspect.Gang) error {
		current, err := json.Marshal(g)
		if err != nil {
			return fmt.Errorf("encoding gang %s: %w", g.Name, err)
		}
		if bytes.Equal(current, printed) { // a change of another workload in the namespace
			return nil
		}
		isFirst := printed == nil
		printed = current
		reader.AddEvents(ctx, &g)
		if err := o.printUpdate(stdout, g, isFirst); err != nil {
			return err
		}
		if g.Phase == lifecycle.Failed {
			return fmt.Errorf("gang %s failed", g.Name)
		}
		return nil
	})
}

// printUpdate prints a gang as one line of JSON or as a document of YAML. As text, it prints the gang
// over the previous update on a terminal, or after a separator in a file or pipe.
func (o *statusOptions) printUpdate(out io.Writer, g inspect.Gang, isFirst bool) error {
	switch o.output {
	case outputJSON:
		return printJSON(out, g, "")
	case outputYAML:
		if err := writeOutput(out, []byte("---\n")); err != nil {
			return err
		}
		return printObject(out, outputYAML, g)
	}
	var text bytes.Buffer
	_, height, isTerminal := terminalSize(out)
	if !isTerminal && !isFirst {
		text.WriteString("\n---\n\n")
	}
	inspect.PrintGang(&text, o.printOptions(out), g)
	if isTerminal {
		return writeOutput(out, renderScreen(text.Bytes(), height, isFirst))
	}
	return writeOutput(out, text.Bytes())
}

// Control sequences of terminals (ECMA-48).
const (
	clearScreen = "\x1b[2J"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// renderScreen returns the control sequences that replace the previous text on a terminal. It
// overwrites each line instead of clearing the screen, which would flicker. It truncates a text that
// is higher than the terminal, because a terminal that scrolls would keep the top of every update.
// The height is a number of lines; 0 means that it is unknown.
func renderScreen(text []byte, height int, isFirst bool) []byte {
	var out bytes.Buffer
	if isFirst {
		out.WriteString(clearScreen)
	}
	out.WriteString(cursorHome)
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if height > 2 && len(lines) > height-1 {
		omitted := len(lines) - (height - 2)
		lines = append(lines[:height-2:height-2], fmt.Appendf(nil, "… %d more lines", omitted))
	}
	for _, line := range lines {
		out.Write(line)
		out.WriteString(clearLine + "\n")
	}
	out.WriteString(clearBelow)
	return out.Bytes()
}

func (o *statusOptions) printOptions(out io.Writer) inspect.PrintOptions {
	width, _, isTerminal := terminalSize(out)
	return inspect.PrintOptions{Now: o.clock.Now(), TimeZone: time.Local, Color: useColor(isTerminal), Width: width}
}
