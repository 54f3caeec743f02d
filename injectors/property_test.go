package injectors_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/conformance"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/testing/golden"
)

// admitAndPatch handles a manifest as the webhook and the API server do: decode, inject, diff, patch. It
// returns the patched manifest and the injected workload.
func admitAndPatch(raw []byte, kind gang.Kind) (patched []byte, w gang.Workload, err error) {
	w = newWorkload(kind)
	if err := json.Unmarshal(raw, w.Object()); err != nil {
		return nil, w, err
	}
	before := w.DeepCopy()
	if _, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Inject(w); err != nil {
		return nil, before, err
	}
	text, err := json.Marshal(injection.Diff(raw, before.Object(), w.Object()))
	if err != nil {
		return nil, w, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, w, err
	}
	if patched, err = patch.Apply(raw); err != nil {
		return nil, w, fmt.Errorf("applying the patch %s: %w", text, err)
	}
	return patched, w, nil
}

func newWorkload(kind gang.Kind) gang.Workload {
	w, _ := gang.NewWorkload(kind) // the callers pass valid kinds
	return w
}

// TestUnknownFields adds fields that no Go type has to the golden manifests, at every depth. The
// patched manifest must contain every field at its original path.
func TestUnknownFields(t *testing.T) {
	admitted := 0
	for _, c := range golden.Cases(t) {
		w := golden.ParseWorkload(t, c.Manifest)
		if w.Meta().Annotations[gang.AnnotationInjected] != "" || w.Meta().Labels[gang.LabelPhase] != "" {
			continue // contains values that Rollcall wrote and may replace
		}
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1)) // the test must be reproducible
			var tree any
			if err := yaml.Unmarshal(c.Manifest, &tree); err != nil {
				t.Fatal(err)
			}
			addUnknownFields(rng, tree)
			raw, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			patched, injected, err := admitAndPatch(raw, w.Kind())
			if injectors.IsDenied(err) {
				continue
			}
			if err != nil {
				t.Fatalf("%s, seed %d: %v", c.Name, seed, err)
			}
			admitted++
			var got any
			if err := json.Unmarshal(patched, &got); err != nil {
				t.Fatal(err)
			}
			if err := conformance.CheckAdditive(tree, got); err != nil {
				t.Fatalf("%s, seed %d: %v", c.Name, seed, err)
			}
			decoded := newWorkload(w.Kind())
			if err := json.Unmarshal(patched, decoded.Object()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(injected.Object(), decoded.Object()); diff != "" {
				t.Fatalf("%s, seed %d: the patched manifest differs (-injected +patched):\n%s", c.Name, seed, diff)
			}
		}
	}
	if admitted == 0 {
		t.Fatal("no manifest was admitted")
	}
}

// addUnknownFields adds an unknown field to about a third of the objects in a tree.
func addUnknownFields(rng *rand.Rand, tree any) {
	switch node := tree.(type) {
	case map[string]any:
		for key, child := range node {
			switch key {
			case "labels", "annotations", "matchLabels", "limits", "requests", "data":
				// These maps have user-defined keys instead of fields.
			default:
				addUnknownFields(rng, child)
			}
		}
		if rng.IntN(3) == 0 {
			node["futureField"] = map[string]any{"id": float64(rng.IntN(1_000_000))}
		}
	case []any:
		for _, child := range node {
			addUnknownFields(rng, child)
		}
	}
}

// FuzzInject checks the guarantees of the engine for every input that decodes to a workload.
func FuzzInject(f *testing.F) {
	for _, c := range golden.Cases(f) {
		raw, err := yaml.YAMLToJSON(c.Manifest)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, golden.ParseWorkload(f, c.Manifest).Kind() == gang.StatefulSet)
	}
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	f.Fuzz(func(t *testing.T, raw []byte, set bool) {
		kind := gang.Job
		if set {
			kind = gang.StatefulSet
		}
		w := newWorkload(kind)
		if json.Unmarshal(raw, w.Object()) != nil || hasUnnamedContainer(w) {
			return
		}
		before := w.DeepCopy()
		_, err := engine.Inject(w)
		if err != nil {
			if !injectors.IsDenied(err) {
				t.Fatalf("internal error: %v", err)
			}
			if diff := cmp.Diff(before.Object(), w.Object()); diff != "" {
				t.Fatalf("the denied workload changed (-before +after):\n%s", diff)
			}
			return
		}
		twice := w.DeepCopy()
		if _, err := engine.Inject(twice); err != nil {
			t.Fatalf("the second injection was denied: %v", err)
		}
		if diff := cmp.Diff(w.Object(), twice.Object()); diff != "" {
			t.Fatalf("the second injection changed the workload (-once +twice):\n%s", diff)
		}
		if before.Meta().Annotations[gang.AnnotationInjected] == "" {
			requireAdditive(t, before, w)
		}
	})
}

// hasUnnamedContainer reports whether a workload has a container without a name. The API server rejects it after the
// webhook, and the record of the injection has no key for the container.
func hasUnnamedContainer(w gang.Workload) bool {
	spec := w.Template().Spec
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return c.Name == ""
	})
}

func requireAdditive(t *testing.T, before, after gang.Workload) {
	t.Helper()
	for _, w := range []gang.Workload{before, after} {
		delete(w.Meta().Labels, gang.LabelPhase)
		delete(w.Meta().Annotations, gang.AnnotationStatus)
	}
	var trees [2]any
	for i, w := range []gang.Workload{before, after} {
		text, err := json.Marshal(w.Object())
		if err != nil {
			return // the input contains a value that cannot be encoded
		}
		if err := json.Unmarshal(text, &trees[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := conformance.CheckAdditive(trees[0], trees[1]); err != nil {
		t.Fatal(err)
	}
}
