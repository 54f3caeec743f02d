package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/internal/buildinfo"
)

func newVersionCommand() *cobra.Command {
	cmd := newCommand("version", func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "version:     %s\n", buildinfo.Version())
		if commit := buildinfo.Commit(); commit != "" {
			fmt.Fprintf(out, "commit:      %s\n", commit)
		}
		fmt.Fprintf(out, "go:          %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
		fmt.Fprintf(out, "kubernetes:  %s or newer\n", gang.MinKubernetesVersion)
		return nil
	})
	cmd.Args = cobra.NoArgs
	return cmd
}
