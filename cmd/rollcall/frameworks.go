package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rollcall.training/injectors"
)

const frameworksLong = `List the frameworks of this build with their roles, ports and environment
variables. With a name, print the variables of each role in sample gangs of that
framework.

Exit codes:
  0  success
  1  the framework does not exist`

func newFrameworksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "frameworks [NAME]",
		Short: "List the supported frameworks and the variables that they set",
		Long:  frameworksLong,
		Example: `  rollcall frameworks
  rollcall frameworks pytorch`,
		Args: cobra.MaximumNArgs(1),
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
		variables, err := registry.Variables(f.Name)
		if err != nil {
			return err
		}
		names := make([]string, len(variables))
		for i, v := range variables {
			names[i] = v.Name
		}
		elastic := "no"
		if f.ElasticRole != "" {
			elastic = "yes"
		}
		roles := strings.Join(f.RoleNames(), ",")
		if f.AnyRoles {
			roles = "any"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", f.Name, roles, f.Port, elastic,
			strings.Join(names, " "))
	}
	return w.Flush()
}

// showFramework prints the variables of the sample gangs of a framework. Values from the downward API
// are printed as the path of their field in angle brackets.
func showFramework(out io.Writer, name string) error {
	registry := injectors.Builtin()
	if _, ok := registry.Frameworks().Find(name); !ok {
		return fmt.Errorf("framework %q not found; supported frameworks: %s",
			name, strings.Join(registry.Frameworks().Names(), ", "))
	}
	samples, err := registry.Samples(name)
	if err != nil {
		return err
	}
	for i, sample := range samples {
		if i > 0 {
			fmt.Fprintln(out)
		}
		g := sample.Gang
		fmt.Fprintf(out, "%s, %d of %d ranks", g.Role, g.OwnMember().Size, g.Size)
		if sample.Roles != "" {
			fmt.Fprintf(out, ", roles: %s", sample.Roles)
		}
		if g.Elastic != nil {
			fmt.Fprintf(out, ", elastic: %s", g.Elastic)
		}
		fmt.Fprintln(out)
		for _, variable := range sample.Plan.Env {
			value := variable.Value
			if variable.ValueFrom != nil && variable.ValueFrom.FieldRef != nil {
				value = "<" + variable.ValueFrom.FieldRef.FieldPath + ">"
			}
			fmt.Fprintf(out, "  %s=%s\n", variable.Name, value)
		}
	}
	return nil
}
