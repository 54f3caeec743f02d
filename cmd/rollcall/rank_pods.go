package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/ranges"
)

// rankOptions are the flags of a command that runs kubectl for the pods of ranks.
type rankOptions struct {
	cluster   clusterFlags
	ranks     string
	container string
	// runKubectl runs kubectl with the standard streams of the command.
	runKubectl func(cmd *cobra.Command, args []string) error
}

func newExecCommand() *cobra.Command {
	o := rankOptions{runKubectl: runKubectl}
	cmd := newCommand("exec", func(cmd *cobra.Command, args []string) error {
		if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
			return newUsageError(fmt.Errorf("%s requires the name of a gang, and a command after --", cmd.CommandPath()))
		}
		return o.run(cmd, args, o.exec)
	})
	o.addFlags(cmd, "ranks and ranges of ranks, such as 3 or 0,8-15", "")
	cmd.Flags().StringVarP(&o.container, "container", "c", "",
		"name of the container (default: the first training container)")
	return cmd
}

func newPortForwardCommand() *cobra.Command {
	o := rankOptions{runKubectl: runKubectl}
	cmd := newCommand("port-forward", func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return newUsageError(fmt.Errorf("%s requires the name of a gang and a port", cmd.CommandPath()))
		}
		return o.run(cmd, args, o.forwardPorts)
	})
	o.addFlags(cmd, "rank", "0")
	return cmd
}

func (o *rankOptions) addFlags(cmd *cobra.Command, usage, defaultRanks string) {
	o.cluster.addFlags(cmd)
	cmd.Flags().StringVar(&o.ranks, "rank", defaultRanks, usage)
	cmd.ValidArgsFunction = o.cluster.completeGang
}

// run calls act with the gang of the first argument, its selected ranks and the other arguments.
func (o *rankOptions) run(
	cmd *cobra.Command, args []string, act func(*cobra.Command, inspect.Gang, []inspect.Rank, []string) error,
) error {
	if o.ranks == "" {
		return newUsageError(errors.New("--rank: required, such as --rank 0 or --rank 0-7"))
	}
	selected, err := parseRanks(o.ranks)
	if err != nil {
		return newUsageError(err)
	}
	reader, err := o.cluster.newReader()
	if err != nil {
		return err
	}
	g, err := reader.GetGang(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	ranks, err := selectPods(g, selected)
	if err != nil {
		return err
	}
	return act(cmd, g, ranks, args[1:])
}

// exec runs a command in the pods of ranks.
func (o *rankOptions) exec(cmd *cobra.Command, g inspect.Gang, ranks []inspect.Rank, command []string) error {
	failed := 0
	for _, rank := range ranks {
		container := o.container
		if container == "" {
			container = defaultContainer(g, rank)
		}
		args := append(o.kubectlArgs(g, "exec", rank.Pod), "--container", container)
		if len(ranks) == 1 {
			args = append(args, streamFlags(cmd.InOrStdin(), cmd.OutOrStdout())...)
			return o.runKubectl(cmd, append(append(args, "--"), command...))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "--- rank %d, pod %s\n", rank.Rank, rank.Pod)
		if err := o.runKubectl(cmd, append(append(args, "--"), command...)); err != nil {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("the command failed in %s", gang.FormatCount(failed, "rank"))
	}
	return nil
}

// streamFlags returns the flags of kubectl exec for standard input, and for the terminal if there is one.
func streamFlags(in io.Reader, out io.Writer) []string {
	flags := []string{"--stdin"}
	_, _, isTerminal := terminalSize(out)
	if input, isFile := in.(*os.File); isFile && isTerminal {
		if _, _, isTerminal := terminalSize(input); isTerminal {
			flags = append(flags, "--tty")
		}
	}
	return flags
}

// forwardPorts forwards ports to the pod of one rank.
func (o *rankOptions) forwardPorts(cmd *cobra.Command, g inspect.Gang, ranks []inspect.Rank, ports []string) error {
	if len(ranks) > 1 {
		return newUsageError(errors.New("--rank: must be one rank, because a local port has one target"))
	}
	return o.runKubectl(cmd, append(o.kubectlArgs(g, "port-forward", "pod/"+ranks[0].Pod), ports...))
}

// selectPods returns the selected ranks of a gang. The error reports a rank without a running pod.
func selectPods(g inspect.Gang, selected ranges.Set) ([]inspect.Rank, error) {
	ranks, err := selectRanks(g, selected)
	for _, rank := range ranks {
		if rank.Object == nil || rank.Node == "" {
			return nil, fmt.Errorf("rank %d of gang %s has no running pod: %s", rank.Rank, g.Name, missingLogReason(rank, ""))
		}
	}
	return ranks, err
}

// defaultContainer returns the first container in which a rank trains.
func defaultContainer(g inspect.Gang, rank inspect.Rank) string {
	if containers := g.TrainingContainers(rank); len(containers) > 0 {
		return containers[0]
	}
	return rank.Object.Spec.Containers[0].Name // the workload of the pod was deleted
}

// kubectlArgs returns the arguments of kubectl up to a pod, with the cluster of the flags.
func (o *rankOptions) kubectlArgs(g inspect.Gang, verb, pod string) []string {
	var args []string
	if o.cluster.kubeconfig != "" {
		args = append(args, "--kubeconfig", o.cluster.kubeconfig)
	}
	if o.cluster.context != "" {
		args = append(args, "--context", o.cluster.context)
	}
	return append(args, "--namespace", g.Namespace, verb, pod)
}

// runKubectl runs kubectl. Its exit code is that of the error.
func runKubectl(cmd *cobra.Command, args []string) error {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("finding kubectl, which %s runs: %w", cmd.CommandPath(), err)
	}
	kubectl := exec.CommandContext(cmd.Context(), path, args...)
	kubectl.Stdin, kubectl.Stdout, kubectl.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	err = kubectl.Run()
	if status := (*exec.ExitError)(nil); errors.As(err, &status) {
		return exitError{error: errors.New(""), code: status.ExitCode()} // kubectl has printed the problem
	}
	return err
}
