package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/manifest"
)

// injectOptions are the flags of rollcall inject.
type injectOptions struct {
	files     []string
	namespace string
	domain    string
	version   string
	output    string
	children  bool
}

func newInject() *cobra.Command {
	o := injectOptions{}
	cmd := &cobra.Command{
		Use:   "inject -f FILE",
		Short: "Print manifests as the webhook would admit them",
		Long: `Print manifests as the webhook would admit them, and the objects that the
reconciler would make. No cluster is asked.

Documents without the label ` + gang.LabelFramework + ` are printed as they are.
The Service is printed to be read: in a cluster the reconciler makes it, with the
workload as its owner. To apply the result, leave it out with --children=false.
When one workload is denied, nothing is printed but the reasons, and the exit
code is 1, so that a pipe into kubectl apply gets all or nothing.`,
		Example: `  rollcall inject -f job.yaml
  rollcall inject -f manifests/ -o json
  cat job.yaml | rollcall inject -f - | kubectl diff -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, filesUsage)
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the objects that name none")
	f.StringVar(&o.domain, "cluster-domain", gang.DefaultClusterDomain, "DNS domain of the cluster")
	f.StringVar(&o.version, "kubernetes-version", "", "version of the cluster, such as 1.34; without it, the newest that Rollcall knows")
	f.StringVarP(&o.output, "output", "o", string(manifest.YAML), "format: yaml or json")
	f.BoolVar(&o.children, "children", true, "print the objects that the reconciler would make, too")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag is declared above
	}
	return cmd
}

func (o injectOptions) run(stdin io.Reader, stdout, stderr io.Writer) error {
	format := manifest.Format(o.output)
	if format != manifest.YAML && format != manifest.JSON {
		return fmt.Errorf("unknown output format %q: use yaml or json", o.output)
	}
	docs, unreadable, err := readManifests(o.files, stdin)
	if err != nil {
		return err
	}
	if len(unreadable) > 0 {
		return unreadable[0]
	}
	config := gang.Config{ClusterDomain: o.domain}
	if o.version != "" {
		if config.NoRestartRules, err = gang.NoRestartRules(o.version); err != nil {
			return err
		}
	}
	engine := injectors.New(injectors.Builtin(), config)
	denied := 0
	out := docs
	for _, d := range docs {
		injections, err := d.Inject(engine, o.namespace)
		if err != nil {
			return err
		}
		for _, in := range injections {
			denied += report(stderr, d, in)
			if out, err = o.withService(out, in); err != nil {
				return err
			}
		}
	}
	if denied > 0 {
		return fmt.Errorf("%d of the workloads cannot become a gang; nothing was printed", denied)
	}
	return manifest.Write(stdout, format, out)
}

// withService adds the gang's Service, unless one is there: the members of a gang
// share it, and an injected manifest may be injected again.
func (o injectOptions) withService(docs []*manifest.Document, in manifest.Injection) ([]*manifest.Document, error) {
	s := in.Service()
	if s == nil || !o.children || manifest.Holds(docs, s.Kind, in.Namespace, s.Name) {
		return docs, nil
	}
	s.Namespace = in.Namespace // beside its workload, wherever that will be applied
	child, err := manifest.Of("service/"+s.Name, s)
	return append(docs, child), err
}

// report prints what a user should know of one workload, and returns 1 when it
// was denied.
func report(stderr io.Writer, d *manifest.Document, in manifest.Injection) int {
	for _, w := range in.Warnings {
		fmt.Fprintf(stderr, "warning: %s (%s): %s\n", d, in.Object, w)
	}
	if name := in.Children.KeyPair; name != "" && in.Err == nil {
		fmt.Fprintf(stderr, "note: %s (%s): the Secret %s, a fresh pair of keys, is not printed; Rollcall makes it in the cluster\n", d, in.Object, name)
	}
	if in.Err == nil {
		return 0
	}
	for _, c := range injectors.Causes(in.Err) {
		fmt.Fprintf(stderr, "error: %s (%s): %s\n", d, in.Object, c)
	}
	return 1
}
