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
		t.Run(inj.Framework().Name, func(t *testing.T) { conformance.RunSuite(t, inj) })
	}
}

// injectWithEngine is a front end that calls the engine directly.
func injectWithEngine(t *testing.T, text []byte) conformance.FrontEndResult {
	t.Helper()
	w := conformance.ParseWorkload(t, text)
	if w.Meta().Namespace == "" {
		w.Meta().Namespace = "default"
	}
	result, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Inject(w)
	out := conformance.FrontEndResult{Warnings: result.Warnings.Strings()}
	if err != nil {
		if !injectors.IsDenied(err) {
			t.Fatalf("internal error: %v", err)
		}
		out.Denials = injectors.DenialCauses(err)
		return out
	}
	if out.Object, err = yaml.Marshal(w.Object()); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGoldens(t *testing.T) { conformance.RunGoldenCases(t, injectWithEngine) }
