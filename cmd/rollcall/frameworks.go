package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rollcall.training/injectors"
)

func newFrameworks() *cobra.Command {
	return &cobra.Command{
		Use:   "frameworks",
		Short: "List the frameworks of this build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "FRAMEWORK\tROLES\tPORT")
			for _, f := range injectors.Builtin().Frameworks() {
				fmt.Fprintf(w, "%s\t%s\t%d\n", f.Name, strings.Join(f.Roles, ","), f.Port)
			}
			return w.Flush()
		},
	}
}
