package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
)

// injectOptions are the flags of rollcall inject.
type injectOptions struct {
	files           []string
	engine          engineFlags
	output          string
	includeChildren bool
}

const injectLong = `Print manifests as the webhook would admit them, together with the objects that the
controller would create. The command does not contact a cluster.

Documents without the label ` + gang.LabelFramework + ` are printed unchanged.
The output includes the Service of each gang for information. In a cluster, the
controller creates the Service with the workload as its owner. Before you apply the
output, omit the Service with --children=false.

If any workload is denied, the command prints only the reasons. A pipe into kubectl
apply therefore receives all documents or none.

Exit codes:
  0  all documents were printed
  1  a workload was denied, or a document or flag is invalid`

func newInjectCommand() *cobra.Command {
	o := injectOptions{}
	cmd := &cobra.Command{
		Use:   "inject -f FILE",
		Short: "Print manifests as the webhook would admit them",
		Long:  injectLong,
		Example: `  rollcall inject -f job.yaml
  rollcall inject -f manifests/ -o json
  rollcall inject -f job.yaml --children=false | kubectl diff -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.runInject(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, filenameUsage)
	o.engine.addFlags(f)
	f.StringVarP(&o.output, "output", "o", string(manifest.YAML), "output format: yaml or json")
	f.BoolVar(&o.includeChildren, "children", true, "objects that the controller would create")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag is declared above
	}
	return cmd
}

// runInject reads all documents before it prints any, so that its output is complete or empty.
func (o injectOptions) runInject(stdin io.Reader, stdout, stderr io.Writer) error {
	format := manifest.Format(o.output)
	if format != manifest.YAML && format != manifest.JSON {
		return fmt.Errorf("--output: unsupported format %q; use yaml or json", o.output)
	}
	docs, unreadable, err := readManifests(o.files, stdin)
	if err != nil {
		return err
	}
	if len(unreadable) > 0 {
		return unreadable[0]
	}
	engine, err := o.engine.newEngine()
	if err != nil {
		return err
	}
	denied := 0
	out := docs
	for _, d := range docs {
		injections, err := d.Inject(engine, o.engine.namespace)
		if err != nil {
			return err
		}
		for _, injection := range injections {
			printInjection(stderr, d, injection)
			if injection.Err != nil {
				denied++
			}
			if out, err = o.appendService(out, injection); err != nil {
				return err
			}
		}
	}
	if denied > 0 {
		return fmt.Errorf("denied %s; nothing was printed", formatCount(denied, "workload"))
	}
	return manifest.Write(stdout, format, out)
}

// appendService appends the Service of the gang. It returns docs unchanged if they already have the
// Service, because the members of a gang share it and because the input may be the output of an
// earlier injection.
func (o injectOptions) appendService(
	docs []*manifest.Document, injection manifest.Injection,
) ([]*manifest.Document, error) {
	service := injection.BuildService()
	if service == nil || !o.includeChildren ||
		manifest.ContainsObject(docs, service.Kind, injection.Namespace, service.Name) {
		return docs, nil
	}
	// The manifest of the workload may have no namespace. Then kubectl determines the namespace of
	// both objects.
	service.Namespace = injection.Namespace
	child, err := manifest.NewDocument("service/"+service.Name, service)
	return append(docs, child), err
}

// printInjection prints the warnings of one workload, the omitted Secret, and the reasons of a
// denial.
func printInjection(stderr io.Writer, d *manifest.Document, injection manifest.Injection) {
	for _, warning := range injection.Warnings.Strings() {
		fmt.Fprintf(stderr, "warning: %s (%s): %s\n", d, injection.Object, warning)
	}
	if injection.Err != nil {
		for _, cause := range injectors.DenialCauses(injection.Err) {
			fmt.Fprintf(stderr, "error: %s (%s): %s\n", d, injection.Object, cause)
		}
		return
	}
	if name := injection.Children.KeyPairSecret; name != "" {
		fmt.Fprintf(stderr, "note: %s (%s): the Secret %s is not printed; Rollcall generates its key pair in the cluster\n",
			d, injection.Object, name)
	}
}
