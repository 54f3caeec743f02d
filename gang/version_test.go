package gang_test

import (
	"testing"

	"rollcall.training/gang"
)

func TestSupportsContainerRestartRules(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.33.0":         false,
		"1.34":            false,
		"v1.34.9-gke.100": false,
		"v1.35.0":         true,
		"1.35":            true,
		"v1.37.2+k3s1":    true,
		"v2.0.0":          true,
	} {
		if got, err := gang.SupportsContainerRestartRules(version); err != nil || got != want {
			t.Errorf("SupportsContainerRestartRules(%q) = %v, %v; want %v", version, got, err, want)
		}
	}
	for _, text := range []string{"", "newest", "v1"} {
		if _, err := gang.SupportsContainerRestartRules(text); err == nil {
			t.Errorf("SupportsContainerRestartRules(%q) returned no error", text)
		}
	}
}

func TestValidateKubernetesVersion(t *testing.T) {
	for _, version := range []string{gang.MinKubernetesVersion, "v1.33.0", "v1.37.2+k3s1", "2.0"} {
		if err := gang.ValidateKubernetesVersion(version); err != nil {
			t.Errorf("ValidateKubernetesVersion(%q) = %v, want no error", version, err)
		}
	}
	for _, version := range []string{"1.32", "v1.20.15", "newest"} {
		if err := gang.ValidateKubernetesVersion(version); err == nil {
			t.Errorf("ValidateKubernetesVersion(%q) returned no error", version)
		}
	}
}
