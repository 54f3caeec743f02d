package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/internal/detach"
)

const detachLong = `Detach gangs from Rollcall: they keep running, and Rollcall no longer manages them.

Workloads that Rollcall suspended for a restart are resumed after their pods have
terminated. Kueue resumes the Jobs in its queues. Jobs without a limit on failed pods
get one. The command lists what the API cannot limit. Gangs that have finished do not
change.

Each workload gets the label rollcall.training/inject: "false". Remove the label, and
Rollcall manages the gang again. Until then, nobody restarts the ranks together.

helm uninstall runs the same before it deletes the managers. Use the command if no
manager runs any more, or to detach single gangs.

The command needs permission to get, list and patch Jobs and StatefulSets, to patch
the status of Jobs, and to list pods.

Exit codes:
  0  all gangs are detached
  1  a gang does not exist or could not be detached, or the command failed
  2  the command is invalid`

// detachOptions are the flags of rollcall detach.
type detachOptions struct {
	cluster clusterFlags
	dryRun  bool
	timeout time.Duration
}

func newDetachCommand() *cobra.Command {
	o := detachOptions{}
	cmd := &cobra.Command{
		Use:   "detach [GANG]...",
		Short: "Resume gangs and end their management by Rollcall",
		Long:  detachLong,
		Example: `  rollcall detach --all-namespaces --dry-run
  rollcall detach train --namespace team`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && o.cluster.allNamespaces {
				return newUsageError(errors.New("--all-namespaces: must not be set with the name of a gang; use --namespace"))
			}
			detacher, err := o.newDetacher(args)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return runDetach(ctx, detacher, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.ValidArgsFunction = o.cluster.completeGang
	o.cluster.addFlags(cmd)
	o.cluster.addAllNamespacesFlag(cmd.Flags(), "gangs")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only print what the command would do")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "maximum time to wait for terminating pods")
	return cmd
}

func (o *detachOptions) newDetacher(gangs []string) (detach.Detacher, error) {
	reader, err := o.cluster.newReader()
	if err != nil {
		return detach.Detacher{}, err
	}
	return detach.Detacher{
		Client:     reader.Client,
		Engine:     reader.Engine,
		Namespaces: []string{reader.Namespace},
		Gangs:      gangs,
		DryRun:     o.dryRun,
		Clock:      clock.RealClock{},
	}, nil
}

// runDetach detaches gangs and prints the results.
func runDetach(ctx context.Context, d detach.Detacher, stdout, stderr io.Writer) error {
	detached, failed := 0, 0
	if d.DryRun {
		fmt.Fprintln(stderr, "dry run: nothing is changed")
	}
	err := d.Run(ctx, func(r detach.Result) {
		if r.Err != nil {
			failed++
		} else {
			detached++
		}
		fmt.Fprintln(stdout, r)
	})
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d workloads could not be detached", failed, failed+detached)
	case detached == 0:
		fmt.Fprintln(stderr, "no gangs to detach")
	}
	return nil
}
