// Argocd compares live objects with manifests, as Argo CD does. It runs the code of Argo CD: the
// normalization of ignoreDifferences with managedFieldsManagers, and the three-way diff.
//
// The program is a module of its own, because Argo CD requires other versions of the Kubernetes
// libraries than the tests. It reads a JSON array of comparisons from standard input and writes a JSON
// array of results to standard output.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/argoproj/argo-cd/v3/util/argo/managedfields"
	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/argoproj/gitops-engine/pkg/utils/kube/scheme"
	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// comparison is one element of the input.
type comparison struct {
	// Live is the object of the API server, with its managed fields. Manifest is the object in git.
	Live, Manifest *unstructured.Unstructured
	// Managers are the managedFieldsManagers of ignoreDifferences.
	Managers []string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "argocd:", err)
		os.Exit(1)
	}
}

// result is one element of the output.
type result struct {
	// Difference is the JSON merge patch from the live object to the object that Argo CD predicts after a
	// sync; null without a difference.
	Difference json.RawMessage
	// Target is the manifest that Argo CD applies with the sync option RespectIgnoreDifferences=true.
	Target json.RawMessage
}

func run() error {
	var comparisons []comparison
	if err := json.NewDecoder(os.Stdin).Decode(&comparisons); err != nil {
		return fmt.Errorf("reading the comparisons: %w", err)
	}
	results := []result{}
	for _, c := range comparisons {
		r, err := c.compare()
		if err != nil {
			return fmt.Errorf("comparing %s: %w", c.Manifest.GetName(), err)
		}
		results = append(results, r)
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// compare compares a live object with its manifest. See preDiffNormalize (util/argo/diff) and
// normalizeTargetResources (controller) of Argo CD.
func (c comparison) compare() (result, error) {
	live, manifest := c.Live, c.Manifest
	if len(c.Managers) > 0 {
		pt := scheme.ResolveParseableType(manifest.GroupVersionKind(), nil)
		var err error
		if live, manifest, err = managedfields.Normalize(live, manifest, c.Managers, pt); err != nil {
			return result{}, fmt.Errorf("normalizing managed fields: %w", err)
		}
	}
	target, err := restoreIgnoredFields(c.Live, live, manifest)
	if err != nil {
		return result{}, err
	}
	out := result{Difference: json.RawMessage("null"), Target: target}
	compared, err := diff.Diff(manifest, live)
	if err != nil || !compared.Modified {
		return out, err
	}
	out.Difference, err = jsonpatch.CreateMergePatch(compared.NormalizedLive, compared.PredictedLive)
	return out, err
}

// restoreIgnoredFields returns the normalized manifest with the live values of the fields that were removed.
func restoreIgnoredFields(live, normalizedLive, normalizedManifest *unstructured.Unstructured) ([]byte, error) {
	var texts [][]byte
	for _, object := range []*unstructured.Unstructured{normalizedLive, live, normalizedManifest} {
		text, err := object.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encoding the object: %w", err)
		}
		texts = append(texts, text)
	}
	patch, err := jsonpatch.CreateMergePatch(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("comparing the live object with its normalization: %w", err)
	}
	return jsonpatch.MergePatch(texts[2], patch)
}
