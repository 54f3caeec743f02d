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
	"rollcall.training/roster"
)

// statusPace is how often a gang that is followed is drawn at most.
const statusPace = time.Second

// statusOptions are the flags of rollcall status.
type statusOptions struct {
	cluster clusterFlags
	watch   bool
	output  string
	clock   clock.PassiveClock
}

func newStatus() *cobra.Command {
	o := statusOptions{clock: clock.RealClock{}}
	cmd := &cobra.Command{
		Use:   "status [gang]",
		Short: "Show the gangs of a namespace, or one of them rank by rank",
		Long: `Show the gangs of a namespace, or one of them rank by rank: its members, what each
rank does and why some are not ready, why it restarted or failed, and its Events.

It needs the right to list Jobs, StatefulSets and pods, and shows Events where those
may be listed. A gang is named by its name or by that of one of its workloads.

With --watch it follows one gang until that ends; the exit code is 0 when it
succeeded and 1 when it failed.`,
		Example: `  rollcall status
  rollcall status train --watch
  rollcall status train -o json | jq '.ranks[] | select(.state == "failed")'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			if err := o.check(name); err != nil {
				return err
			}
			reader, err := o.cluster.reader()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), reader, name, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.cluster.add(cmd.Flags())
	o.cluster.addAll(cmd.Flags())
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "follow the gang until it ends")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "format: json, instead of a drawing")
	return cmd
}

func (o *statusOptions) check(name string) error {
	switch {
	case o.output != "" && o.output != "json":
		return fmt.Errorf("unknown output format %q: use json", o.output)
	case name != "" && o.cluster.all:
		return errors.New("a gang is in one namespace: name it with --namespace instead of --all-namespaces")
	case name == "" && o.watch:
		return fmt.Errorf("--watch follows one gang: name it; kubectl get jobs -L %s --watch follows all", gang.LabelPhase)
	}
	return nil
}

func (o *statusOptions) run(ctx context.Context, r roster.Reader, name string, stdout, stderr io.Writer) error {
	switch {
	case name == "":
		return o.list(ctx, r, stdout, stderr)
	case o.watch:
		return o.follow(ctx, r, name, stdout)
	}
	g, err := r.Gang(ctx, name)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return printJSON(stdout, g, "  ")
	}
	roster.Draw(stdout, o.style(stdout), g)
	return nil
}

func (o *statusOptions) list(ctx context.Context, r roster.Reader, stdout, stderr io.Writer) error {
	gangs, err := r.Gangs(ctx)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return printJSON(stdout, append([]roster.Gang{}, gangs...), "  ") // [] and not null
	}
	if len(gangs) == 0 {
		where := "in the namespace " + r.Namespace
		if o.cluster.all {
			where = "in any namespace"
		}
		fmt.Fprintf(stderr, "no gangs %s: no Job or StatefulSet there has the label %s\n", where, gang.LabelFramework)
		return nil
	}
	roster.DrawList(stdout, o.style(stdout), gangs, o.cluster.all)
	return nil
}

// follow draws a gang each time that it has changed, until it ends.
func (o *statusOptions) follow(ctx context.Context, r roster.Reader, name string, stdout io.Writer) error {
	var drawn []byte
	return r.Follow(ctx, name, statusPace, func(g roster.Gang) error {
		now, err := json.Marshal(g)
		if err != nil {
			return fmt.Errorf("printing the gang: %w", err)
		}
		if bytes.Equal(now, drawn) { // something else moved in the namespace
			return nil
		}
		first := drawn == nil
		drawn = now
		r.Events(ctx, &g)
		if err := o.redraw(stdout, g, first); err != nil {
			return err
		}
		if g.Phase == gang.Failed {
			return fmt.Errorf("the gang %s failed", g.Name)
		}
		return nil
	})
}

func (o *statusOptions) redraw(out io.Writer, g roster.Gang, first bool) error {
	if o.output == "json" {
		return printJSON(out, g, "") // a line each
	}
	var text bytes.Buffer
	roster.Draw(&text, o.style(out), g)
	if _, height, ok := terminal(out); ok {
		return write(out, screen(text.Bytes(), height, first))
	}
	if !first {
		text = *bytes.NewBuffer(append([]byte("\n---\n\n"), text.Bytes()...))
	}
	return write(out, text.Bytes())
}

func write(out io.Writer, text []byte) error {
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// Control sequences of terminals (ECMA-48).
const (
	clearScreen = "\x1b[2J"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// screen writes a text over the one before, line by line, which flickers less than
// clearing first does. What does not fit is left out, since a terminal that scrolls
// would keep the top of each drawing.
func screen(text []byte, height int, first bool) []byte {
	var out bytes.Buffer
	if first {
		out.WriteString(clearScreen)
	}
	out.WriteString(cursorHome)
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if height > 2 && len(lines) > height-1 {
		left := len(lines) - (height - 2)
		lines = append(lines[:height-2:height-2], fmt.Appendf(nil, "… %d more lines", left))
	}
	for _, line := range lines {
		out.Write(line)
		out.WriteString(clearLine + "\n")
	}
	out.WriteString(clearBelow)
	return out.Bytes()
}

func (o *statusOptions) style(out io.Writer) roster.Style {
	width, _, ok := terminal(out)
	return roster.Style{Now: o.clock.Now(), Zone: time.Local, Color: colored(ok), Width: width}
}

func printJSON(out io.Writer, v any, indent string) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return nil
}
