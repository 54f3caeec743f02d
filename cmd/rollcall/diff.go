package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
)

func newDiffCommand() *cobra.Command {
	o := injectOptions{output: outputYAML}
	cluster, useCluster := clusterFlags{}, false
	cmd := newCommand("diff", func(cmd *cobra.Command, _ []string) error {
		o.engine.namespace = cmp.Or(cluster.namespace, metav1.NamespaceDefault)
		if !useCluster {
			if err := rejectFlags(cmd, clusterFlagNames, "requires --cluster"); err != nil {
				return err
			}
			return o.diff(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		}
		const reason = "must not be set with --cluster, whose webhook has its own"
		if err := rejectFlags(cmd, append([]string{"policy"}, engineFlagNames...), reason); err != nil {
			return err
		}
		docs, err := o.readDocuments(cmd.InOrStdin())
		if err != nil {
			return err
		}
		d, err := newClusterDiffer(cluster, cmd.ErrOrStderr())
		if err != nil {
			return newUsageError(err)
		}
		return d.diff(cmd.Context(), docs, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	cmd.Args = rejectFileArguments
	addFilenameFlag(cmd, &o.files, "filename", "f", filenameUsage)
	o.engine.addFlagsWithCluster(cmd, &cluster)
	o.addPolicyFlag(cmd)
	cmd.Flags().BoolVar(&useCluster, "cluster", false, "what the manifests change in a cluster")
	return cmd
}

func (o *injectOptions) diff(stdin io.Reader, stdout, stderr io.Writer) error {
	docs, err := o.readDocuments(stdin)
	if err != nil {
		return err
	}
	before, err := formatForDiff(docs)
	if err != nil {
		return err
	}
	injected, err := o.injectAll(docs, stderr)
	if err != nil {
		return err
	}
	after, err := formatForDiff(injected)
	if err != nil {
		return err
	}
	if changed, err := printDiff(stdout, "manifest", "admitted", before, after); err != nil || !changed {
		return err
	}
	return errFindings
}

// printDiff prints the difference of two texts with their names, and reports whether they differ.
func printDiff(out io.Writer, from, to, before, after string) (changed bool, err error) {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(before), B: difflib.SplitLines(after), FromFile: from, ToFile: to, Context: 3,
	})
	if err != nil {
		return false, fmt.Errorf("comparing the manifests: %w", err)
	}
	return text != "", writeOutput(out, []byte(text))
}

// formatForDiff returns documents as YAML with sorted keys and without comments, so that only values differ. It
// abbreviates the record of the injection, which is not for people.
func formatForDiff(docs []*manifest.Document) (string, error) {
	var objects bytes.Buffer
	if err := manifest.Write(&objects, manifest.JSON, docs); err != nil {
		return "", err
	}
	var out strings.Builder
	for decoder := json.NewDecoder(&objects); decoder.More(); {
		var object json.RawMessage
		if err := decoder.Decode(&object); err != nil {
			return "", fmt.Errorf("decoding a document: %w", err)
		}
		text, err := yaml.JSONToYAML(object)
		if err != nil {
			return "", fmt.Errorf("encoding a document: %w", err)
		}
		out.WriteString("---\n")
		for line := range strings.Lines(string(text)) {
			if indent, _, isRecord := strings.Cut(line, gang.AnnotationInjected+": "); isRecord {
				line = indent + gang.AnnotationInjected + ": record of the injection\n"
			}
			out.WriteString(line)
		}
	}
	return out.String(), nil
}
