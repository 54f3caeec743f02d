package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

func newFrameworksCommand() *cobra.Command {
	output := outputText
	cmd := newCommand("frameworks", func(cmd *cobra.Command, args []string) error {
		frameworks, out := injectors.Builtin().Frameworks(), cmd.OutOrStdout()
		if len(args) == 1 {
			f, ok := frameworks.Find(args[0])
			if !ok {
				return newUnknownFrameworkError(args[0])
			}
			frameworks = gang.Frameworks{f}
		}
		switch {
		case output == outputText && len(args) == 1:
			return printSamples(out, args[0])
		case output == outputText:
			return listFrameworks(out)
		}
		descriptions, err := describeFrameworks(frameworks)
		switch {
		case err != nil:
			return err
		case len(args) == 1:
			return printObject(out, output, descriptions[0])
		}
		return printObject(out, output, descriptions)
	})
	cmd.Args = allowOneArgument
	cmd.ValidArgs = injectors.Builtin().Frameworks().Names()
	addChoiceFlag(cmd, &output, "output", "o", "output format", outputText, outputJSON, outputYAML)
	return cmd
}

func listFrameworks(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FRAMEWORK\tROLES\tPORT\tELASTIC")
	for _, f := range injectors.Builtin().Frameworks() {
		elastic := "no"
		if f.ElasticRole != "" {
			elastic = "yes"
		}
		roles := strings.Join(f.RoleNames(), ",")
		if f.AnyRoles {
			roles = "any"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", f.Name, roles, f.Port, elastic)
	}
	return w.Flush()
}

// frameworkDescription is the JSON of a framework.
type frameworkDescription struct {
	Name      string                `json:"name"`
	Port      int32                 `json:"port"`
	Elastic   bool                  `json:"elastic"`
	Roles     []roleDescription     `json:"roles"`
	Variables []variableDescription `json:"variables"`
}

type roleDescription struct {
	Name    string `json:"name"`
	Default bool   `json:"default,omitempty"`
	// MaxPods is 0 if the framework does not limit the role.
	MaxPods  int32    `json:"maxPods,omitempty"`
	Requires []string `json:"requires,omitempty"`
	Excludes []string `json:"excludes,omitempty"`
}

type variableDescription struct {
	Name string `json:"name"`
	// Required is true if admission rejects a different value of the user.
	Required bool `json:"required,omitempty"`
	// MultiPodOnly is true if a gang of one pod does not get the variable.
	MultiPodOnly bool `json:"multiPodOnly,omitempty"`
}

func describeFrameworks(frameworks gang.Frameworks) ([]frameworkDescription, error) {
	var descriptions []frameworkDescription
	for _, f := range frameworks {
		d := frameworkDescription{Name: f.Name, Port: f.Port, Elastic: f.ElasticRole != ""}
		for _, r := range f.Roles {
			d.Roles = append(d.Roles, roleDescription{
				Name: r.Name, Default: r.Name == f.DefaultRole, MaxPods: r.MaxPods, Requires: r.Requires, Excludes: r.Excludes,
			})
		}
		variables, err := injectors.Builtin().Variables(f.Name)
		if err != nil {
			return nil, err
		}
		for _, v := range variables {
			d.Variables = append(d.Variables, variableDescription{
				Name: v.Name, Required: v.Policy == plan.Required, MultiPodOnly: v.MultiPodOnly,
			})
		}
		descriptions = append(descriptions, d)
	}
	return descriptions, nil
}

// printSamples prints what each role of a framework gets in sample gangs.
func printSamples(out io.Writer, name string) error {
	samples, err := injectors.Builtin().Samples(name)
	for i, sample := range samples {
		if i > 0 {
			fmt.Fprintln(out)
		}
		printSample(out, sample)
	}
	return err
}

// newUnknownFrameworkError returns the usage error of a framework that does not exist.
func newUnknownFrameworkError(name string) error {
	return newUsageError(fmt.Errorf("framework %q does not exist; use %s",
		name, joinAlternatives(injectors.Builtin().Frameworks().Names())))
}

// printSample prints the additions to one sample workload. Values from the downward API are printed as
// the path of their field in angle brackets.
func printSample(out io.Writer, sample injectors.Sample) {
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
		fmt.Fprintf(out, "  %s=%s\n", variable.Name, injectors.FormatEnvValue(variable.EnvVar))
	}
	for _, addition := range sample.Additions() {
		fmt.Fprintf(out, "  %s %s\n", addition.Kind, addition.Name)
	}
	var programs []string
	for _, program := range sample.Plan.Programs {
		programs = append(programs, program.Name)
	}
	if len(programs) > 0 {
		fmt.Fprintf(out, "  programs of the image: %s\n", strings.Join(programs, " "))
	}
}
