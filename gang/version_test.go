package gang_test

import (
	"testing"

	"rollcall.training/gang"
)

func TestNoRestartRules(t *testing.T) {
	for text, want := range map[string]bool{
		"v1.33.0": true, "1.34": true, "v1.34.9-gke.100": true, "v1.35.0": false, "1.35": false, "v1.37.2+k3s1": false, "v2.0.0": false,
	} {
		if got, err := gang.NoRestartRules(text); err != nil || got != want {
			t.Errorf("NoRestartRules(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "newest", "v1"} {
		if _, err := gang.NoRestartRules(text); err == nil {
			t.Errorf("NoRestartRules(%q) gives no error", text)
		}
	}
}
