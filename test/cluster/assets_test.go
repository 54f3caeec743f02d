package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writePrograms writes a script for each program that prints a text.
func writePrograms(t *testing.T, text string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheckAssets(t *testing.T) {
	for name, c := range map[string]struct {
		dir     string
		wantErr string // empty if the directory is used
	}{
		"all programs of the same minor version": {
			dir: writePrograms(t, "Kubernetes v1.37.9", controlPlanePrograms...),
		},
		"another minor version": {
			dir:     writePrograms(t, "Kubernetes v1.36.2", controlPlanePrograms...),
			wantErr: "kube-apiserver is not v1.37.x: Kubernetes v1.36.2",
		},
		"the programs of envtest": {
			dir:     writePrograms(t, "Kubernetes v1.37.2", controlPlanePrograms[:3]...),
			wantErr: "the directory does not contain kube-controller-manager, kube-scheduler",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkAssets(t.Context(), c.dir, "v1.37.2")
			if (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("the error is %v, want %q", err, c.wantErr)
			}
		})
	}
}

// TestStartWithAssets starts a control plane from a directory like that of envtest: that of the machine, or links to
// the program that a cluster builds, which runs the component that its name selects.
func TestStartWithAssets(t *testing.T) {
	version, err := kubernetesComponent.requiredVersion()
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv(assetsEnv)
	if dir == "" || checkAssets(t.Context(), dir, version) != nil {
		dir = t.TempDir()
		kubernetes, err := kubernetesComponent.ensureBinary(t.Context(), newProgress(t.Output()))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range controlPlanePrograms {
			if err := os.Symlink(kubernetes, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv(assetsEnv, dir)
	}
	c := Start(t, Options{Nodes: NoNodes, Release: Latest})
	for _, process := range c.state.Processes {
		if got := filepath.Dir(process.Path); got != dir {
			t.Errorf("%s runs from %s, want %s", process.Name, got, dir)
		}
	}
	if _, err := c.Kubectl(t.Context(), "get", "namespaces"); err != nil {
		t.Error(err)
	}
}
