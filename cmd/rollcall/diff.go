package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
)

const diffLong = `Print the difference between manifests and what the webhook admits, as a unified diff.
The command does not contact a cluster. To compare a manifest with the objects of a
cluster, use kubectl diff, which calls the webhook of the cluster.

Exit codes:
  0  admission changes nothing
  1  admission changes a document, or denies a workload
  2  the command is invalid, or a document cannot be read`

func newDiffCommand() *cobra.Command {
	o := injectOptions{output: outputYAML}
	cmd := &cobra.Command{
		Use:     "diff -f FILE",
		Short:   "Print what the webhook changes in manifests",
		Long:    diffLong,
		Example: "  " + programName + " diff -f job.yaml",
		Args:    rejectFileArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.diff(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addInputFlags(cmd)
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
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(before), B: difflib.SplitLines(after),
		FromFile: "manifest", ToFile: "admitted", Context: 3,
	})
	if err != nil {
		return fmt.Errorf("comparing the manifests: %w", err)
	}
	if text == "" {
		return nil
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	return errFindings
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
