package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/roster"
)

// manyRanks is how many ranks may speak without being asked for by number: each that is
// followed holds a connection to the API server and one from there to its node.
const manyRanks = 50

// logsOptions are the flags of rollcall logs.
type logsOptions struct {
	cluster   clusterFlags
	ranks     string
	all       bool
	follow    bool
	tail      int64
	since     time.Duration
	container string
}

func newLogs() *cobra.Command {
	o := logsOptions{}
	cmd := &cobra.Command{
		Use:   "logs GANG",
		Short: "Print what the ranks of a gang write, each line with its rank",
		Long: `Print what the ranks of a gang write, each line with its rank.

Without --follow it prints the logs that are there, rank by rank. With --follow it
goes on with the ranks that start later, and with those of the next attempt when the
gang restarts, until the gang ends.`,
		Example: `  rollcall logs train --tail 20
  rollcall logs train --follow --rank 0
  rollcall logs train --rank 0,8-15 --since 10m`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := o.chosen()
			if err != nil {
				return err
			}
			reader, err := o.cluster.reader()
			if err != nil {
				return err
			}
			_, _, isTerminal := terminal(cmd.OutOrStdout())
			p := &printer{out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), color: colored(isTerminal)}
			return o.run(cmd.Context(), reader, args[0], chosen, p)
		},
	}
	o.cluster.add(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&o.ranks, "rank", "", "ranks to print, such as 3 or 0,8-15, instead of all")
	f.BoolVar(&o.all, "all", false, fmt.Sprintf("print all ranks of a gang of more than %d", manyRanks))
	f.BoolVarP(&o.follow, "follow", "f", false, "go on until the gang ends")
	f.Int64Var(&o.tail, "tail", -1, "lines to print of what each rank has written so far; -1 means all")
	f.DurationVar(&o.since, "since", 0, "print what is not older than this, such as 10m; 0 means all")
	f.StringVarP(&o.container, "container", "c", "", "container, instead of those that train")
	return cmd
}

// chosen are the ranks that the user named; nil stands for all.
func (o *logsOptions) chosen() (roster.Ranges, error) {
	switch {
	case o.ranks == "":
		return nil, nil
	case o.all:
		return nil, errors.New("--rank names some ranks and --all means all: use one of them")
	}
	return roster.ParseRanges(o.ranks)
}

func (o *logsOptions) run(ctx context.Context, r roster.Reader, name string, chosen roster.Ranges, p *printer) error {
	g, err := r.Gang(ctx, name)
	if err != nil {
		return err
	}
	if err := o.bound(g, chosen); err != nil {
		return err
	}
	f := newFollower(r.Client, g.Namespace, o.request(), p)
	if !o.follow {
		return o.print(ctx, f, g, chosen)
	}
	return f.until(ctx, func(ctx context.Context) error {
		return r.Follow(ctx, name, followPace, func(g roster.Gang) error {
			f.look(ctx, o.sources(g, chosen))
			return nil
		})
	})
}

// bound refuses to print more ranks than anybody can read unless asked to, and ranks
// that the gang does not have.
func (o *logsOptions) bound(g roster.Gang, chosen roster.Ranges) error {
	n := 0
	for _, r := range g.Ranks {
		if chosen == nil || chosen.Has(r.Rank) {
			n++
		}
	}
	switch {
	case chosen != nil && n == 0:
		return fmt.Errorf("the gang %s has %d ranks, numbered from 0, and none of %s", g.Name, len(g.Ranks), chosen)
	case chosen == nil && n > manyRanks && !o.all:
		return fmt.Errorf("the gang %s has %d ranks: choose some with --rank, such as --rank 0, or print all of them with --all", g.Name, n)
	}
	return nil
}

// request is what is asked of the API server, but for the container.
func (o *logsOptions) request() corev1.PodLogOptions {
	out := corev1.PodLogOptions{Follow: o.follow}
	if o.tail >= 0 {
		out.TailLines = ptr.To(o.tail)
	}
	if o.since > 0 {
		out.SinceSeconds = ptr.To(max(1, int64(o.since.Seconds())))
	}
	return out
}

// sources are the containers whose logs there are, in the order of the ranks.
func (o *logsOptions) sources(g roster.Gang, chosen roster.Ranges) []source {
	var out []source
	for _, r := range g.Ranks {
		if r.Object == nil || chosen != nil && !chosen.Has(r.Rank) {
			continue
		}
		names := o.containers(g, r)
		for _, c := range names {
			if s, ok := sourceOf(r, c); ok {
				s.beside = len(names) > 1
				out = append(out, s)
			}
		}
	}
	return out
}

// containers are those to print of a rank.
func (o *logsOptions) containers(g roster.Gang, r roster.Rank) []string {
	if o.container != "" {
		return []string{o.container}
	}
	i := slices.IndexFunc(g.Members, func(m roster.Member) bool { return m.Name == r.Member })
	if i < 0 {
		return nil
	}
	return g.Members[i].Containers
}

// print prints what is there, one rank after the other.
func (o *logsOptions) print(ctx context.Context, f *follower, g roster.Gang, chosen roster.Ranges) error {
	failed := 0
	sources := o.sources(g, chosen)
	for _, r := range g.Ranks {
		if chosen != nil && !chosen.Has(r.Rank) {
			continue
		}
		mine := slices.Clone(sources)
		mine = slices.DeleteFunc(mine, func(s source) bool { return s.rank != r.Rank })
		if len(mine) == 0 {
			f.printer.note("rank %d has written nothing: %s", r.Rank, why(r, o.container))
		}
		for _, s := range mine {
			if err := f.once(ctx, s); err != nil {
				f.printer.note("%v", err)
				failed++
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("the logs of %d containers could not be read", failed)
	}
	return nil
}

// why says why a rank has no log.
func why(r roster.Rank, container string) string {
	switch {
	case r.Reason != "":
		return r.Reason
	case r.Object != nil && container != "":
		return fmt.Sprintf("pod %s has no container %s that has started", r.Pod, container)
	default:
		return string(r.State)
	}
}
