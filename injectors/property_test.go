package injectors_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/conformance"
	"rollcall.training/plan"
)

// admit does with a text what the webhook and the API server do: decode, inject,
// compare, patch. It returns the patched text and the object that was meant.
func admit(raw []byte, kind gang.Kind) (patched []byte, w gang.Workload, err error) {
	w = empty(kind)
	if err := json.Unmarshal(raw, w.Object()); err != nil {
		return nil, w, err
	}
	before := w.DeepCopy()
	if _, err := injectors.New(injectors.Builtin(), gang.Config{}).Inject(w); err != nil {
		return nil, before, err
	}
	text, err := json.Marshal(plan.Diff(raw, before.Object(), w.Object()))
	if err != nil {
		return nil, w, err
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, w, err
	}
	if patched, err = p.Apply(raw); err != nil {
		return nil, w, fmt.Errorf("applying %s: %w", text, err)
	}
	return patched, w, nil
}

func empty(kind gang.Kind) gang.Workload {
	w, _ := gang.NewWorkload(kind) // the kinds here are constants
	return w
}

// TestUnknownFields strews fields that no Go type of ours knows over the golden
// manifests, at every depth. Each must come out where it went in.
func TestUnknownFields(t *testing.T) {
	admitted := 0
	for _, c := range conformance.Cases(t) {
		w := conformance.Workload(t, c.Manifest)
		if w.Meta().Annotations[gang.AnnotationInjected] != "" || w.Meta().Labels[gang.LabelPhase] != "" {
			continue // carries what Rollcall writes, and may rewrite
		}
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
			var tree any
			if err := yaml.Unmarshal(c.Manifest, &tree); err != nil {
				t.Fatal(err)
			}
			strew(rng, tree)
			raw, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			patched, meant, err := admit(raw, w.Kind())
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
			if err := conformance.Additive(tree, got); err != nil {
				t.Fatalf("%s, seed %d: %v", c.Name, seed, err)
			}
			again := empty(w.Kind())
			if err := json.Unmarshal(patched, again.Object()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(meant.Object(), again.Object()); diff != "" {
				t.Fatalf("%s, seed %d: the patch does not lead to the object (-object +patched):\n%s", c.Name, seed, diff)
			}
		}
	}
	if admitted == 0 {
		t.Fatal("no manifest was admitted, so nothing was tested")
	}
}

// strew adds an unknown field to about a third of all objects below v.
func strew(rng *rand.Rand, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			switch k {
			case "labels", "annotations", "matchLabels", "limits", "requests", "data":
				// maps from names to values have no fields
			default:
				strew(rng, child)
			}
		}
		if rng.IntN(3) == 0 {
			v["futureField"] = map[string]any{"id": float64(rng.IntN(1_000_000))}
		}
	case []any:
		for _, child := range v {
			strew(rng, child)
		}
	}
}

// FuzzInject holds the engine to its promises on whatever decodes to a workload.
func FuzzInject(f *testing.F) {
	for _, c := range conformance.Cases(f) {
		raw, err := yaml.YAMLToJSON(c.Manifest)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, conformance.Workload(f, c.Manifest).Kind() == gang.StatefulSet)
	}
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	f.Fuzz(func(t *testing.T, raw []byte, set bool) {
		kind := gang.Job
		if set {
			kind = gang.StatefulSet
		}
		w := empty(kind)
		if json.Unmarshal(raw, w.Object()) != nil {
			return
		}
		before := w.DeepCopy()
		_, err := engine.Inject(w)
		if err != nil {
			if !injectors.IsDenied(err) {
				t.Fatalf("a fault, not a denial: %v", err)
			}
			if diff := cmp.Diff(before.Object(), w.Object()); diff != "" {
				t.Fatalf("a denial changed the workload:\n%s", diff)
			}
			return
		}
		twice := w.DeepCopy()
		if _, err := engine.Inject(twice); err != nil {
			t.Fatalf("what was admitted is refused the second time: %v", err)
		}
		if diff := cmp.Diff(w.Object(), twice.Object()); diff != "" {
			t.Fatalf("the second injection changed (-once +twice):\n%s", diff)
		}
		if before.Meta().Annotations[gang.AnnotationInjected] == "" {
			additive(t, before, w)
		}
	})
}

func additive(t *testing.T, before, after gang.Workload) {
	t.Helper()
	for _, m := range []gang.Workload{before, after} {
		delete(m.Meta().Labels, gang.LabelPhase)
		delete(m.Meta().Annotations, gang.AnnotationStatus)
	}
	var trees [2]any
	for i, w := range []gang.Workload{before, after} {
		text, err := json.Marshal(w.Object())
		if err != nil {
			return // a value that cannot be encoded came in
		}
		if err := json.Unmarshal(text, &trees[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := conformance.Additive(trees[0], trees[1]); err != nil {
		t.Fatal(err)
	}
}
