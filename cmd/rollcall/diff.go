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

const diffLong = `Print one of two unified diffs of manifests:
  -f FILE            what the webhook changes in the manifests; contacts no cluster
  -f FILE --cluster  what kubectl apply would change in the Jobs and StatefulSets of a
                     cluster

With --cluster, the command merges each manifest with its object as kubectl apply does.
The API server answers a dry run of the change, through all webhooks, and stores nothing.
The difference has no status and no fields that the API server manages. This needs the
permissions of kubectl apply: to get, create and patch Jobs and StatefulSets. If the API
server would reject a change, the difference shows what the manifest requests. For objects
of other kinds, use kubectl diff.

Exit codes:
  0  nothing changes
  1  a document or an object changes, or the webhook or the cluster rejects it
  2  the command is invalid, or a document or the cluster cannot be read`

func newDiffCommand() *cobra.Command {
	o := injectOptions{output: outputYAML}
	cluster, useCluster := clusterFlags{}, false
	cmd := &cobra.Command{
		Use:   "diff -f FILE [--cluster]",
		Short: "Print what the webhook changes in manifests, or what they change in a cluster",
		Long:  diffLong,
		Example: `  rollcall diff -f job.yaml
  rollcall diff -f job.yaml --cluster --namespace team`,
		Args: rejectFileArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
		},
	}
	addFilenameFlag(cmd, &o.files, "filename", "f", filenameUsage)
	o.engine.addFlagsWithCluster(cmd, &cluster)
	o.addPolicyFlag(cmd)
	cmd.Flags().BoolVar(&useCluster, "cluster", false, "what the manifests change in a cluster")
	return cmd
}

func (o injectOptions) diff(stdin io.Reader, stdout, stderr io.Writer) error {
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
