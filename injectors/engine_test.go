package injectors_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/conformance"
)

func TestConformance(t *testing.T) {
	for _, inj := range injectors.Builtin() {
		t.Run(inj.Framework().Name, func(t *testing.T) { conformance.Suite(t, inj) })
	}
}

// engineFront is the engine without any front end around it.
func engineFront(t *testing.T, text []byte) conformance.Outcome {
	t.Helper()
	w := conformance.Workload(t, text)
	if w.Meta().Namespace == "" {
		w.Meta().Namespace = "default"
	}
	result, err := injectors.New(injectors.Builtin(), gang.Config{}).Inject(w)
	out := conformance.Outcome{Warnings: result.Warnings}
	if err != nil {
		if !injectors.IsDenied(err) {
			t.Fatalf("a fault, not a denial: %v", err)
		}
		out.Denials = injectors.Causes(err)
		return out
	}
	if out.Object, err = yaml.Marshal(w.Object()); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGoldens(t *testing.T) { conformance.Goldens(t, engineFront) }
