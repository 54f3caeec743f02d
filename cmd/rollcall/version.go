package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/internal/buildinfo"
)

const versionLong = `Print the version of the command, its commit if the build recorded one, and the
oldest supported Kubernetes. The command does not contact a cluster.

Exit codes:
  0  success
  2  the command is invalid`

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the command",
		Long:  versionLong,
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "version:     %s\n", buildinfo.Version())
			if commit := buildinfo.Commit(); commit != "" {
				fmt.Fprintf(out, "commit:      %s\n", commit)
			}
			fmt.Fprintf(out, "go:          %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Fprintf(out, "kubernetes:  %s or newer\n", gang.MinKubernetesVersion)
		},
	}
}
