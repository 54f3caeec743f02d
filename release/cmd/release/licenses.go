package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rollcall.training/release"
)

const licensesLong = `Print the modules that the programs consist of, with their licenses. The command fails if a
module has no license, or one that does not permit to distribute the programs.`

func newLicensesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "licenses",
		Short: "Print and check the licenses of all modules",
		Long:  licensesLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printLicenses(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

func printLicenses(ctx context.Context, stdout io.Writer) error {
	source, err := release.ReadSource(ctx, ".", "v0.0.0", true)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "licenses-")
	if err != nil {
		return fmt.Errorf("creating a directory for programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROGRAM\tMODULE\tVERSION\tLICENSES")
	for _, program := range []release.Program{release.Manager, release.Command} {
		path := filepath.Join(dir, program.Name)
		if err := source.BuildProgram(ctx, program, release.Platform{OS: "linux", Arch: "amd64"}, path); err != nil {
			return err
		}
		modules, err := source.ReadModules(ctx, path)
		if err != nil {
			return err
		}
		for _, module := range modules {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n",
				program.Name, module.Path, module.Version, strings.Join(module.Licenses, ", "))
		}
	}
	return table.Flush()
}
