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

// detachOptions are the flags of rollcall detach.
type detachOptions struct {
	cluster clusterFlags
	dryRun  bool
	timeout time.Duration
}

func newDetachCommand() *cobra.Command {
	o := detachOptions{}
	cmd := newCommand("detach", func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && o.cluster.allNamespaces {
			return newUsageError(errors.New("--all-namespaces: must not be set with the name of a gang; use --namespace"))
		}
		reader, err := o.cluster.newReader()
		if err != nil {
			return err
		}
		detacher := detach.Detacher{
			Client: reader.Client, Engine: reader.Engine, Namespaces: []string{reader.Namespace}, Gangs: args,
			DryRun: o.dryRun, Clock: clock.RealClock{},
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		return runDetach(ctx, detacher, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	cmd.ValidArgsFunction = o.cluster.completeGang
	o.cluster.addFlags(cmd)
	o.cluster.addAllNamespacesFlag(cmd.Flags(), "gangs")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only print what the command would do")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "maximum time to wait for terminating pods")
	return cmd
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
