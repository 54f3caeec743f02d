package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rollcall.training/internal/inspect"
	"rollcall.training/internal/lifecycle"
)

const (
	// detailsInterval is the minimum time between two requests for Events and for the log that shows the progress, unless
	// the phase changes.
	detailsInterval = 10 * time.Second
	// logInterval is the same time if the end of a log is shown, which changes more often than everything else.
	logInterval = 3 * time.Second
	// sizeInterval is how often the size of the terminal is read. A signal of a changed size does not exist on all
	// systems.
	sizeInterval = 200 * time.Millisecond
	// exitInterrupted and exitTerminated are the exit codes of a live view after SIGINT and SIGTERM, as those of a shell.
	exitInterrupted = 130
	exitTerminated  = 143
)

// watchStatus follows a gang, or all gangs if the name is empty. The error of a failed gang results in exit code 1.
func (o *statusOptions) watchStatus(ctx context.Context, reader inspect.Reader, name string, stdout io.Writer) error {
	_, _, isTerminal := terminalSize(stdout)
	if isTerminal && os.Getenv("TERM") != "dumb" && o.output == outputText {
		return o.watchLive(ctx, reader, name, stdout)
	}
	printed := map[string]string{}
	return watchGangs(ctx, reader, name, func(gangs []inspect.Gang) error {
		return o.printChanges(stdout, gangs, name, printed)
	})
}

// watchGangs calls handle with the gang of a name, or with all gangs if the name is empty, and again after changes. A
// single gang has Events and its progress. If it failed, the result is an error.
func watchGangs(ctx context.Context, reader inspect.Reader, name string, handle func([]inspect.Gang) error) error {
	var before inspect.Gang
	var detailsTime time.Time
	interval := cmp.Or(reader.LogInterval, detailsInterval)
	return reader.Watch(ctx, name, watchInterval, func(gangs []inspect.Gang) error {
		if name == "" {
			return handle(gangs)
		}
		g := gangs[0]
		if g.Phase != before.Phase || g.Restarts != before.Restarts || time.Since(detailsTime) >= interval {
			reader.AddDetails(ctx, &g)
			detailsTime = time.Now()
		} else {
			g.Events, g.Progress, g.LogTail, g.Warnings = before.Events, before.Progress, before.LogTail, before.Warnings
		}
		before = g
		if err := handle([]inspect.Gang{g}); err != nil {
			return err
		}
		if g.Phase == lifecycle.Failed {
			return fmt.Errorf("gang %s failed", g.Name)
		}
		return nil
	})
}

// printChanges prints the gangs that differ from what was printed before: as text one line for each, as JSON one line,
// as YAML a document. When a single gang has finished, its status follows as text.
func (o *statusOptions) printChanges(
	out io.Writer, gangs []inspect.Gang, name string, printed map[string]string,
) error {
	for _, g := range gangs {
		current := g.FormatLine(o.cluster.allNamespaces)
		if o.output != outputText {
			withoutDetails := g
			withoutDetails.Events, withoutDetails.Progress = nil, nil // change while the gang does not change
			text, err := json.Marshal(withoutDetails)
			if err != nil {
				return fmt.Errorf("encoding gang %s: %w", g.Name, err)
			}
			current = string(text)
		}
		key := g.Namespace + "/" + g.Members[0].Name // the runs of a CronJob have the same gang name
		if printed[key] == current {
			continue
		}
		printed[key] = current
		if err := o.printChange(out, g, current); err != nil {
			return err
		}
		if name != "" && o.output == outputText && g.Phase.Terminal() {
			fmt.Fprintln(out)
			inspect.PrintGang(out, o.printOptions(out), g)
		}
	}
	return nil
}

func (o *statusOptions) printChange(out io.Writer, g inspect.Gang, line string) error {
	switch o.output {
	case outputJSON:
		return printJSON(out, g, "")
	case outputYAML:
		if err := writeOutput(out, []byte("---\n")); err != nil {
			return err
		}
		return printObject(out, outputYAML, g)
	}
	return writeOutput(out, []byte(o.clock.Now().Format(time.TimeOnly)+"  "+line+"\n"))
}

// watchLive draws the current state on a terminal until the watch ends, and then prints the last state below the
// command. It draws at most once a second, so that ages grow, and when the size of the terminal changes.
func (o *statusOptions) watchLive(ctx context.Context, reader inspect.Reader, name string, out io.Writer) error {
	interrupted, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	ctx, stop = signal.NotifyContext(interrupted, syscall.SIGTERM)
	defer stop()
	reader.LogInterval = detailsInterval
	if reader.LogRank = o.logRank; reader.LogRank != nil {
		reader.LogInterval = logInterval
	}
	updates, finished := startWatch(ctx, reader, name)
	view := &screen{out: out}
	defer view.close()
	ticker := time.NewTicker(sizeInterval)
	defer ticker.Stop()
	var gangs []inspect.Gang
	for isKnown := false; ; {
		select {
		case gangs = <-updates:
			isKnown = true
		case <-ticker.C:
		case err := <-finished:
			view.close()
			if len(updates) > 0 {
				gangs = <-updates
			}
			if len(gangs) > 0 {
				o.printGangs(out, o.printOptions(out), gangs, name)
			}
			switch {
			case err != nil && interrupted.Err() != nil:
				return exitError{error: errors.New(""), code: exitInterrupted}
			case err != nil && ctx.Err() != nil:
				return exitError{error: errors.New(""), code: exitTerminated}
			}
			return err
		}
		now := o.clock.Now()
		if !isKnown || !view.isDue(now) {
			continue
		}
		options := o.printOptions(out)
		options.Live = true
		if err := view.draw(now, func(w io.Writer) { o.printGangs(w, options, gangs, name) }); err != nil {
			return err
		}
	}
}

// startWatch starts [watchGangs]. The first channel has the latest state that was not received, the second the result.
func startWatch(ctx context.Context, reader inspect.Reader, name string) (<-chan []inspect.Gang, <-chan error) {
	updates, finished := make(chan []inspect.Gang, 1), make(chan error, 1)
	go func() {
		finished <- watchGangs(ctx, reader, name, func(gangs []inspect.Gang) error {
			select {
			case <-updates: // is outdated
			default:
			}
			updates <- gangs
			return nil
		})
	}()
	return updates, finished
}

// printGangs prints the gang of a name, or all gangs.
func (o *statusOptions) printGangs(out io.Writer, options inspect.PrintOptions, gangs []inspect.Gang, name string) {
	if name != "" {
		inspect.PrintGang(out, options, gangs[0])
		return
	}
	inspect.PrintGangs(out, options, gangs, o.cluster.allNamespaces)
}
