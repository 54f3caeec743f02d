package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy/suite"
	"rollcall.training/internal/vet"
)

// injectOptions are the flags of rollcall inject.
type injectOptions struct {
	files           []string
	engine          engineFlags
	output          string
	includeChildren bool
	require         bool
	policy          string
}

func newInjectCommand() *cobra.Command {
	o := &injectOptions{output: outputYAML}
	cmd := newCommand("inject", o.runInject)
	cmd.Args = rejectFileArguments
	o.addInputFlags(cmd)
	addChoiceFlag(cmd, &o.output, "output", "o", "output format", outputYAML, outputJSON)
	cmd.Flags().BoolVar(&o.includeChildren, "children", true, "objects that the controller would create")
	cmd.Flags().BoolVar(&o.require, "require", false, requireUsage)
	return cmd
}

// addInputFlags adds the flags of what is injected, and by which rules.
func (o *injectOptions) addInputFlags(cmd *cobra.Command) {
	addFilenameFlag(cmd, &o.files, "filename", "f", filenameUsage)
	o.engine.addFlags(cmd)
	o.addPolicyFlag(cmd)
}

func (o *injectOptions) addPolicyFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.policy, "policy", "", "policy file whose defaults the workloads get")
	mustMarkFilename(cmd, "policy", "yaml", "yml")
}

// runInject reads all documents before it prints any, so that its output is complete or empty.
func (o *injectOptions) runInject(cmd *cobra.Command, _ []string) error {
	docs, err := o.readDocuments(cmd.InOrStdin())
	if err != nil {
		return err
	}
	out, err := o.injectAll(docs, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return manifest.Write(cmd.OutOrStdout(), manifest.Format(o.output), out)
}

// readDocuments returns the documents of the files. The error reports a document that cannot be read.
func (o *injectOptions) readDocuments(stdin io.Reader) ([]*manifest.Document, error) {
	if len(o.files) == 0 {
		return nil, newUsageError(errNoFiles)
	}
	docs, err := readValidManifests(o.files, stdin)
	return docs, newUsageError(err)
}

// injectAll injects the documents with the engine and the policy of the flags, see injectDocuments.
func (o *injectOptions) injectAll(docs []*manifest.Document, stderr io.Writer) ([]*manifest.Document, error) {
	engine, err := o.engine.newEngine()
	if err != nil {
		return nil, newUsageError(err)
	}
	admission := suite.Options{Engine: engine, Namespaces: suite.ReadNamespaces(docs)}
	if o.policy != "" {
		if admission.Policy, err = requirePolicy("--policy", o.policy, nil); err != nil {
			return nil, err
		}
	}
	return o.injectDocuments(docs, admission, stderr)
}

// injectDocuments injects the documents and prints warnings and denials to stderr. It returns the
// documents and the Services of their gangs. The error determines the exit code.
func (o *injectOptions) injectDocuments(
	docs []*manifest.Document, admission suite.Options, stderr io.Writer,
) ([]*manifest.Document, error) {
	workloads, denied := 0, 0
	out := docs
	services := map[string]bool{} // those of the documents by namespace/name
	for _, object := range manifest.ListObjects(docs) {
		if object.Kind == "Service" {
			services[object.Namespace+"/"+object.Name] = true
		}
	}
	inject := func(w gang.Workload) (injectors.Result, error) {
		result, warnings, err := admission.Inject(w)
		result.Warnings = append(warnings, result.Warnings...)
		return result, err
	}
	for _, d := range docs {
		injections, err := d.Inject(o.engine.namespace, inject)
		if err != nil {
			return nil, newUsageError(addTemplateHint(err, d))
		}
		workloads += len(injections)
		for _, injection := range injections {
			printInjection(wrapForTerminal(stderr), d, injection)
			if injection.Err != nil {
				denied++
			}
			if out, err = o.appendService(out, services, injection); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case denied > 0:
		return nil, fmt.Errorf("denied %s; nothing was printed", gang.FormatCount(denied, "workload"))
	case workloads == 0:
		missing := vet.Run(docs, nil, vet.Options{Engine: admission.Engine}).ExplainUnchecked()
		if o.require {
			return nil, fmt.Errorf("--require: %s", missing)
		}
		fmt.Fprintln(stderr, "note:", missing)
	}
	return out, nil
}

// addTemplateHint adds an instruction to the error of a document that is a template.
func addTemplateHint(err error, d *manifest.Document) error {
	if hint := d.TemplateHint(); hint != "" {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// appendService appends the Service of the gang. It returns docs unchanged if the objects of the
// documents already include the Service, because the members of a gang share it and because the input
// may be the output of an earlier injection.
func (o *injectOptions) appendService(
	docs []*manifest.Document, services map[string]bool, injection manifest.Injection,
) ([]*manifest.Document, error) {
	service := injection.BuildService()
	if service == nil || !o.includeChildren {
		return docs, nil
	}
	// The manifest of the workload may have no namespace. Then kubectl determines the namespace of
	// both objects.
	service.Namespace = injection.Namespace
	key := service.Namespace + "/" + service.Name
	if services[key] {
		return docs, nil
	}
	services[key] = true
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
		if hint := d.TemplateHint(); hint != "" {
			fmt.Fprintf(stderr, "note: %s (%s): %s\n", d, injection.Object, hint)
		}
		return
	}
	if name := injection.Children.PodGroup; name != "" {
		fmt.Fprintf(stderr, "note: %s (%s): the PodGroup %s is not printed; Rollcall creates it in the cluster\n",
			d, injection.Object, name)
	}
	if name := injection.Children.KeyPairSecret; name != "" {
		fmt.Fprintf(stderr, "note: %s (%s): the Secret %s is not printed; Rollcall generates its key pair in the cluster\n",
			d, injection.Object, name)
	}
}
