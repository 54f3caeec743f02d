package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/vet"
)

// failNever is the threshold that nothing reaches.
const failNever = "never"

// vetOptions are the flags of rollcall vet.
type vetOptions struct {
	files     []string
	namespace string
	domain    string
	version   string
	output    string
	failOn    string
	disable   []string
	list      bool
	explain   string
}

func newVet() *cobra.Command {
	o := vetOptions{}
	cmd := &cobra.Command{
		Use:   "vet -f FILE",
		Short: "Say what is wrong or unwise in labelled workloads, before anything is applied",
		Long: `Say what is wrong or unwise in labelled workloads, before anything is applied: what
the webhook would refuse or warn about, in its own words, and what it cannot see.
No cluster is asked.

A finding is an error, which will be refused or cannot work; a warning, which will
most likely not do what is meant; or advice, which costs something that is easily
had cheaper. Each has a code; --list lists them, and --explain tells about one.
Give all files of a gang at once, and they are compared with each other.

The exit code is 0 when no finding reaches --fail-on, 1 when one does, and 2 when
the command, or a document of the input, cannot be read. Documents that can be read
are vetted nevertheless.`,
		Example: `  rollcall vet -f job.yaml
  rollcall vet -f manifests/ --fail-on warning --disable NoMemoryLimit,FloatingImage
  kustomize build overlays/prod | rollcall vet -f - -o json | jq '.findings[].code'`,
		Args: func(cmd *cobra.Command, args []string) error { return unusable(cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unusable(err) })
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, filesUsage)
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the objects that name none")
	f.StringVar(&o.domain, "cluster-domain", gang.DefaultClusterDomain, "DNS domain of the cluster")
	f.StringVar(&o.version, "kubernetes-version", "", "version of the cluster, such as 1.34; without it, the newest that Rollcall knows")
	f.StringVarP(&o.output, "output", "o", "text", "format: text, json or sarif")
	f.StringVar(&o.failOn, "fail-on", string(vet.Error), "the least severity that gives exit code 1: error, warning, advice or never")
	f.StringSliceVar(&o.disable, "disable", nil, "codes of checks to leave out, separated by commas")
	f.BoolVar(&o.list, "list", false, "list the checks instead")
	f.StringVar(&o.explain, "explain", "", "tell about the check with this code instead")
	return cmd
}

// errFound says that findings reached the threshold; they are on the screen.
var errFound = coded{error: errors.New(""), code: 1}

func (o vetOptions) run(stdin io.Reader, stdout io.Writer) error {
	switch {
	case o.list && o.explain != "" || len(o.files) > 0 && (o.list || o.explain != ""):
		return unusable(errors.New("--filename, --list and --explain are three commands: use one of them"))
	case o.list:
		return listChecks(stdout)
	case o.explain != "":
		return unusable(explainCheck(stdout, o.explain))
	case len(o.files) == 0:
		return unusable(errors.New(`name the manifests with --filename; - stands for standard input`))
	}
	return o.vet(stdin, stdout)
}

// vet looks at the files, prints what it finds, and returns an error that has the exit
// code.
func (o vetOptions) vet(stdin io.Reader, stdout io.Writer) error {
	print, err := o.printer()
	if err != nil {
		return unusable(err)
	}
	options, err := o.options()
	if err != nil {
		return unusable(err)
	}
	docs, unreadable, err := readManifests(o.files, stdin)
	if err != nil {
		return unusable(err)
	}
	report := vet.Run(docs, unreadable, options)
	if err := print(stdout, report); err != nil {
		return unusable(err)
	}
	switch {
	case len(unreadable) > 0:
		return unusable(fmt.Errorf("%s cannot be read; the rest was vetted", count(len(unreadable), "document")))
	case o.failOn != failNever && slices.ContainsFunc(report.Findings, func(f vet.Finding) bool { return f.Severity.AtLeast(vet.Severity(o.failOn)) }):
		return errFound
	}
	return nil
}

func (o vetOptions) options() (vet.Options, error) {
	if o.failOn != failNever && !slices.Contains(vet.Severities(), vet.Severity(o.failOn)) {
		return vet.Options{}, fmt.Errorf("--fail-on is %q: use error, warning, advice or never", o.failOn)
	}
	config := gang.Config{ClusterDomain: o.domain}
	if o.version != "" {
		var err error
		if config.NoRestartRules, err = gang.NoRestartRules(o.version); err != nil {
			return vet.Options{}, err
		}
	}
	options := vet.Options{Engine: injectors.New(injectors.Builtin(), config), Namespace: o.namespace}
	for _, name := range o.disable {
		check, err := findCheck(strings.TrimSpace(name))
		if err != nil {
			return vet.Options{}, err
		}
		options.Disabled = append(options.Disabled, check.Code)
	}
	return options, nil
}

func (o vetOptions) printer() (func(io.Writer, vet.Report) error, error) {
	switch o.output {
	case "text":
		return func(w io.Writer, r vet.Report) error { return printReport(w, r, o.namespace) }, nil
	case "json":
		return vet.WriteJSON, nil
	case "sarif":
		return func(w io.Writer, r vet.Report) error { return vet.WriteSARIF(w, r, version()) }, nil
	default:
		return nil, fmt.Errorf("unknown output format %q: use text, json or sarif", o.output)
	}
}

// findCheck finds a check by its code, in whatever case that is written.
func findCheck(name string) (vet.Check, error) {
	for _, c := range vet.Checks() {
		if strings.EqualFold(string(c.Code), name) {
			return c, nil
		}
	}
	return vet.Check{}, fmt.Errorf("no check has the code %q; rollcall vet --list lists them", name)
}
