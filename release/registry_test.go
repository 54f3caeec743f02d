package release

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// startRegistry starts a registry on the loopback interface and returns its host and port.
func startRegistry(t *testing.T) string {
	t.Helper()
	silent := registry.Logger(log.New(io.Discard, "", 0))
	server := httptest.NewServer(registry.New(silent, registry.WithReferrersSupport(true)))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestPushImages(t *testing.T) {
	source := newSource(t, "v0.2.0")
	platforms := []Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}
	images, err := source.BuildManagerImages(t.Context(), platforms, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	reference := startRegistry(t) + "/rollcall/manager:v0.2.0"
	if err := (Registry{Insecure: true}).PushImages(t.Context(), reference, source, images); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the pulled index is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, descriptor := range manifest.Manifests {
		if got := descriptor.Platform.String(); got != platforms[i].String() {
			t.Errorf("image %d is for %s, want %s", i, got, platforms[i])
		}
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != nonRootUser || config.Architecture != platforms[i].Arch {
			t.Errorf("image %d has the user %q and the architecture %q", i, config.Config.User, config.Architecture)
		}
		labels := map[string]string{"version": "v0.2.0", "revision": source.Commit}
		for key, want := range labels {
			if got := config.Config.Labels["org.opencontainers.image."+key]; got != want {
				t.Errorf("label %s is %q, want %q", key, got, want)
			}
		}
		if names := listProgramNames(t, image); !slices.Equal(names, []string{"agent", "manager"}) {
			t.Errorf("image %d has the programs %q, want the agent and the manager", i, names)
		}
		referrers, err := remote.Referrers(tag.Context().Digest(descriptor.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		list, err := referrers.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != string(sbomMediaType) {
			t.Errorf("image %d has the referrers %+v, want one bill of materials", i, list.Manifests)
		}
	}
}

func TestSBOM(t *testing.T) {
	source := newSource(t, "v0.2.0")
	modules := []Module{{Path: "example.com/library", Version: "v1.2.3", Licenses: []string{"BSD-3-Clause", "MIT"}}}
	text, err := source.WriteSBOM(Manager, Platform{OS: "linux", Arch: "amd64"}, modules)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		SPDXVersion string
		Packages    []struct{ Name, VersionInfo, LicenseConcluded string }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	library := document.Packages[2]
	got := library.Name + " " + library.VersionInfo + " " + library.LicenseConcluded
	if diff := cmp.Diff("example.com/library v1.2.3 BSD-3-Clause AND MIT", got); diff != "" {
		t.Errorf("package (-want +got):\n%s", diff)
	}
}

func TestCheckLicenses(t *testing.T) {
	cases := []struct {
		name     string
		licenses []string
		isValid  bool
	}{
		{"a permitted license", []string{"Apache-2.0"}, true},
		{"no license", nil, false},
		{"a copyleft license", []string{"Apache-2.0", "GPL-3.0"}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := checkLicenses(Module{Path: "example.com/library", Version: "v1.0.0", Licenses: c.licenses})
			if (err == nil) != c.isValid {
				t.Errorf("the error is %v, want valid: %t", err, c.isValid)
			}
		})
	}
}

// listProgramNames returns the executable files of an image.
func listProgramNames(t *testing.T, image v1.Image) []string {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	var names []string
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg && header.Mode&0o111 != 0 {
			names = append(names, header.Name)
		}
	}
}
