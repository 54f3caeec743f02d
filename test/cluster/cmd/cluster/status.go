package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rollcall.training/test/cluster"
)

func newStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the clusters of this user and their processes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := cluster.List()
			if err != nil {
				return err
			}
			if len(all) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no clusters")
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			rows := "NAME\tNODES\tSTATE\tSERVER\tPROCESSES\n"
			for _, c := range all {
				rows += fmt.Sprintf("%s\t%s\t%s\t%s\t%s\n",
					c.Name, c.Nodes, describeState(c), c.Server, strings.Join(c.Processes, " "))
			}
			if _, err := io.WriteString(table, rows); err != nil {
				return err
			}
			return table.Flush()
		},
	}
}

func describeState(c cluster.Status) string {
	switch {
	case !c.Running:
		return "crashed; run \"cluster clean\" to remove it"
	case len(c.Exited) > 0:
		return "degraded: " + strings.Join(c.Exited, ", ") + " exited"
	default:
		return "running"
	}
}

func newLogsCommand(target *clusterRef) *cobra.Command {
	return &cobra.Command{
		Use:   "logs [component]",
		Short: "Print the log of a component, for example kube-apiserver, or list the logs",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := target.attachCluster()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				files, err := filepath.Glob(filepath.Join(c.LogDir(), "*.log"))
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(files, "\n"))
				return err
			}
			f, err := os.Open(filepath.Join(c.LogDir(), filepath.Base(args[0])+".log"))
			if err != nil {
				return fmt.Errorf("opening the log (run without arguments to list all logs): %w", err)
			}
			defer func() { _ = f.Close() }()
			_, err = io.Copy(cmd.OutOrStdout(), f)
			return err
		},
	}
}

func newKubeconfigCommand(target *clusterRef) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of a kubeconfig with all permissions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := target.attachCluster()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), c.Kubeconfig())
			return err
		},
	}
}

func newEnvCommand(target *clusterRef) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print shell commands that make kubectl and the tests use the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := target.attachCluster()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG='%s'\nexport %s='%s'\nexport PATH='%s':\"$PATH\"\n",
				c.Kubeconfig(), cluster.ExistingClusterEnv, c.Kubeconfig(), filepath.Join(c.Dir(), "bin"))
			return err
		},
	}
}

func newKubectlCommand(target *clusterRef) *cobra.Command {
	return newToolCommand("kubectl", func(cmd *cobra.Command, args []string) (string, error) {
		c, err := target.attachCluster()
		if err != nil {
			return "", err
		}
		return c.Kubectl(cmd.Context(), args...)
	})
}

func newHelmCommand(target *clusterRef) *cobra.Command {
	return newToolCommand("helm", func(cmd *cobra.Command, args []string) (string, error) {
		c, err := target.attachCluster()
		if err != nil {
			return "", err
		}
		return c.Helm(cmd.Context(), args...)
	})
}

func newToolCommand(name string, call func(*cobra.Command, []string) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   name + " -- [arguments]",
		Short: "Run " + name + " with the cluster",
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := call(cmd, args)
			_, printed := io.WriteString(cmd.OutOrStdout(), out)
			return errors.Join(err, printed)
		},
	}
}
