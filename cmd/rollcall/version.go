package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
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
			fmt.Fprintf(out, "version:     %s\n", buildVersion())
			if commit := buildSetting("vcs.revision"); commit != "" {
				fmt.Fprintf(out, "commit:      %s\n", commit)
			}
			fmt.Fprintf(out, "go:          %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Fprintf(out, "kubernetes:  %s or newer\n", gang.MinKubernetesVersion)
		},
	}
}

// buildVersion returns the module version that the go command recorded in the binary: the tag of a
// release, or a pseudo-version of the commit in a checkout. It returns (devel) if there is none.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// buildSetting returns a setting that the go command recorded in the binary. It returns an empty
// string if the build did not record the setting.
func buildSetting(key string) string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == key {
			return setting.Value
		}
	}
	return ""
}
