package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/ranges"
)

// maxRanksByDefault is the maximum number of ranks whose logs are printed without --rank or --all.
// Each followed log needs a connection to the API server, which needs a connection to the node.
const maxRanksByDefault = 50

// logsOptions are the flags of rollcall logs.
type logsOptions struct {
	cluster   clusterFlags
	ranks     string
	allRanks  bool
	follow    bool
	tail      int64
	since     time.Duration
	container string
}

func newLogsCommand() *cobra.Command {
	o := logsOptions{}
	cmd := newCommand("logs", func(cmd *cobra.Command, args []string) error {
		selected, err := o.selectedRanks()
		if err != nil {
			return newUsageError(err)
		}
		reader, err := o.cluster.newReader()
		if err != nil {
			return err
		}
		_, _, isTerminal := terminalSize(cmd.OutOrStdout())
		p := &linePrinter{out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr(), color: useColor(isTerminal)}
		return o.runLogs(cmd.Context(), reader, args[0], selected, p)
	})
	cmd.Args = requireOneArgument
	cmd.ValidArgsFunction = o.cluster.completeGang
	o.addFlags(cmd)
	return cmd
}

func (o *logsOptions) addFlags(cmd *cobra.Command) {
	o.cluster.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.ranks, "rank", "", "ranks and ranges of ranks, such as 3 or 0,8-15 (default: all ranks)")
	f.BoolVar(&o.allRanks, "all", false, fmt.Sprintf("all ranks of a gang of more than %d ranks", maxRanksByDefault))
	f.BoolVarP(&o.follow, "follow", "f", false, "new lines until the gang succeeds or fails")
	f.Int64Var(&o.tail, "tail", -1, "number of latest lines of each rank; -1 means all lines")
	f.DurationVar(&o.since, "since", 0, "maximum age of lines, such as 10m; 0 means all lines")
	f.StringVarP(&o.container, "container", "c", "", "name of the container (default: all training containers)")
}

// selectedRanks parses --rank. It returns nil for all ranks.
func (o *logsOptions) selectedRanks() (ranges.Set, error) {
	switch {
	case o.ranks == "":
		return nil, nil
	case o.allRanks:
		return nil, errors.New("--rank and --all are mutually exclusive; use one of them")
	}
	return parseRanks(o.ranks)
}

// parseRanks parses ranks and ranges of ranks, such as 3 or 0,4-7.
func parseRanks(text string) (ranges.Set, error) {
	set, invalid := ranges.Parse(text, 0, math.MaxInt32)
	if invalid != "" {
		return nil, fmt.Errorf("parsing ranks %q: %s is not a rank such as 3 or a range such as 4-7", text, invalid)
	}
	return set, nil
}

func (o *logsOptions) runLogs(
	ctx context.Context, reader inspect.Reader, name string, selected ranges.Set, p *linePrinter,
) error {
	g, err := reader.GetGang(ctx, name)
	if err != nil {
		return err
	}
	ranks, err := selectRanks(g, selected)
	if err != nil {
		return err
	}
	if selected == nil && len(ranks) > maxRanksByDefault && !o.allRanks {
		return fmt.Errorf("gang %s has %d ranks; select ranks with --rank, such as --rank 0, or print all of them with --all",
			g.Name, len(ranks))
	}
	f := &logFollower{
		client: reader.Client, namespace: g.Namespace, options: o.podLogOptions(), printer: p,
		openLimiter: make(chan struct{}, maxConcurrentOpens), running: map[containerRun]bool{},
	}
	if !o.follow {
		return o.printLogs(ctx, f, g, ranks)
	}
	return f.followUntil(ctx, func(ctx context.Context) error {
		return reader.Watch(ctx, name, followInterval, func(gangs []inspect.Gang) error {
			var sources []logSource
			ranks, _ := selectRanks(gangs[0], selected) // a gang that shrinks can lose all of them
			for _, rank := range ranks {
				sources = append(sources, o.logSources(gangs[0], rank)...)
			}
			f.startNewLogs(ctx, sources)
			return nil
		})
	})
}

// selectRanks returns the selected ranks of a gang, at least one. A nil selection contains all ranks.
func selectRanks(g inspect.Gang, selected ranges.Set) ([]inspect.Rank, error) {
	if selected == nil {
		return g.Ranks, nil
	}
	ranks := slices.DeleteFunc(slices.Clone(g.Ranks), func(r inspect.Rank) bool { return !selected.Contains(r.Rank) })
	if len(ranks) == 0 {
		return nil, fmt.Errorf("--rank: gang %s has %d ranks, numbered from 0; it does not have rank %s",
			g.Name, len(g.Ranks), selected)
	}
	return ranks, nil
}

// podLogOptions returns the options of all requests. The container is not set.
func (o *logsOptions) podLogOptions() corev1.PodLogOptions {
	options := corev1.PodLogOptions{Follow: o.follow}
	if o.tail >= 0 {
		options.TailLines = ptr.To(o.tail)
	}
	if o.since > 0 {
		options.SinceSeconds = ptr.To(max(1, int64(o.since.Seconds())))
	}
	return options
}

// logSources returns the logs of a rank that exist: that of --container, or those of the training containers.
func (o *logsOptions) logSources(g inspect.Gang, rank inspect.Rank) []logSource {
	if rank.Object == nil {
		return nil
	}
	containers := g.TrainingContainers(rank)
	if o.container != "" {
		containers = []string{o.container}
	}
	var sources []logSource
	for _, container := range containers {
		if source, ok := newLogSource(rank, container); ok {
			source.multiContainer = len(containers) > 1
			sources = append(sources, source)
		}
	}
	return sources
}

// printLogs prints the existing logs, rank by rank. It prints a note for each rank without a log and
// for each log that cannot be read, and returns an error for the latter.
func (o *logsOptions) printLogs(ctx context.Context, f *logFollower, g inspect.Gang, ranks []inspect.Rank) error {
	failed := 0
	for _, rank := range ranks {
		sources := o.logSources(g, rank)
		if len(sources) == 0 {
			f.printer.printNote("rank %d has no logs: %s", rank.Rank, missingLogReason(rank, o.container))
		}
		for _, source := range sources {
			if err := f.streamLog(ctx, source, &logPosition{}); err != nil {
				f.printer.printNote("%v", err)
				failed++
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("reading the logs of %s failed", gang.FormatCount(failed, "container"))
	}
	return nil
}

// missingLogReason returns the reason why a rank has no log. The container is that of --container.
func missingLogReason(rank inspect.Rank, container string) string {
	switch {
	case rank.Reason != "":
		return rank.Reason
	case rank.Object != nil && container != "":
		return fmt.Sprintf("pod %s has no container %s that has started", rank.Pod, container)
	default:
		return string(rank.State)
	}
}
