package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rollcall.training/injectors"
)

func newFrameworks() *cobra.Command {
	return &cobra.Command{
		Use:   "frameworks [name]",
		Short: "List the frameworks of this build, or what one of them gives to each role",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return showFramework(cmd.OutOrStdout(), args[0])
			}
			return listFrameworks(cmd.OutOrStdout())
		},
	}
}

func listFrameworks(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FRAMEWORK\tROLES\tPORT\tELASTIC\tVARIABLES")
	registry := injectors.Builtin()
	for _, f := range registry.Frameworks() {
		samples, err := registry.Samples(f.Name)
		if err != nil {
			return err
		}
		elastic := "no"
		if f.Elastic != "" {
			elastic = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", f.Name, strings.Join(f.RoleNames(), ","), f.Port, elastic,
			strings.Join(injectors.Variables(samples), " "))
	}
	return w.Flush()
}

// showFramework prints what the workloads of sample gangs receive.
func showFramework(out io.Writer, name string) error {
	registry := injectors.Builtin()
	if _, ok := registry.Frameworks().Find(name); !ok {
		return fmt.Errorf("no framework %q in this build; there are %s", name, strings.Join(registry.Frameworks().Names(), ", "))
	}
	samples, err := registry.Samples(name)
	if err != nil {
		return err
	}
	for i, s := range samples {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s, %d of the gang's %d ranks", s.Gang.Role, s.Gang.Own().Size, s.Gang.Size)
		if s.Roles != "" {
			fmt.Fprintf(out, ", roles: %s", s.Roles)
		}
		if s.Gang.Elastic != nil {
			fmt.Fprintf(out, ", elastic: %s", s.Gang.Elastic)
		}
		fmt.Fprintln(out)
		for _, e := range s.Plan.Env {
			value := e.Value
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				value = "<" + e.ValueFrom.FieldRef.FieldPath + ">"
			}
			fmt.Fprintf(out, "  %s=%s\n", e.Name, value)
		}
	}
	return nil
}
