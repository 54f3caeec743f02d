package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Recorder runs an operator on the objects of one manifest.
type Recorder func(context.Context, []*unstructured.Unstructured) (*Recording, error)

// Main is the main function of a recording program. It records every manifest in dirs, which are
// relative to the flag -data. It writes the recordings that differ. With -check, it fails instead.
func Main(ctx context.Context, record Recorder, dirs ...string) {
	data := flag.String("data",
		"../../../internal/migrate/testdata/operators", "the `directory` of manifests and recordings")
	check := flag.Bool("check", false, "fail if a recording is stale, and write nothing")
	flag.Parse()
	var failed bool
	for _, d := range dirs {
		if err := recordDirectory(ctx, record, filepath.Join(*data, d), *check); err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

const (
	manifestSuffix  = ".yaml"
	recordingSuffix = ".recorded.json"
)

func recordDirectory(ctx context.Context, record Recorder, dir string, check bool) error {
	manifests, err := filepath.Glob(filepath.Join(dir, "*"+manifestSuffix))
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		return fmt.Errorf("%s does not contain a manifest", dir)
	}
	var errs []error
	stale := 0
	for _, m := range manifests {
		differs, err := recordManifest(ctx, record, m, check)
		if err != nil {
			errs = append(errs, err)
		}
		if differs {
			stale++
		}
	}
	recordings, err := filepath.Glob(filepath.Join(dir, "*"+recordingSuffix))
	if err != nil {
		return err
	}
	for _, r := range recordings {
		m := strings.TrimSuffix(r, recordingSuffix) + manifestSuffix
		if _, err := os.Stat(m); err != nil {
			errs = append(errs, fmt.Errorf("%s has no manifest: remove it", r))
		}
	}
	fmt.Printf("%s: %d manifests, %d recordings differ\n", filepath.Base(dir), len(manifests), stale)
	return errors.Join(errs...)
}

// recordManifest records one manifest and reports whether its recording differs.
func recordManifest(ctx context.Context, record Recorder, manifest string, check bool) (bool, error) {
	objects, err := ReadManifest(manifest)
	if err != nil {
		return false, err
	}
	r, err := record(ctx, objects)
	if err != nil {
		return false, fmt.Errorf("recording %s: %w", manifest, err)
	}
	if len(r.Pods) == 0 {
		return false, fmt.Errorf("recording %s: the operator created no pod", manifest)
	}
	r.sortAll()
	var now bytes.Buffer
	encoder := json.NewEncoder(&now)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(r); err != nil {
		return false, err
	}
	file := strings.TrimSuffix(manifest, manifestSuffix) + recordingSuffix
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	switch {
	case bytes.Equal(before, now.Bytes()):
		return false, nil
	case check:
		return true, fmt.Errorf("%s is stale: run make operators and review the difference", file)
	default:
		return true, os.WriteFile(file, now.Bytes(), 0o644)
	}
}

// Operator returns the path and version of a module that this program is built with.
func Operator(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == module {
				return d.Path + "@" + d.Version
			}
		}
	}
	panic("not built with " + module)
}

// ModuleDir returns the source directory of a module that this program is built with. The program
// must run in the directory of its own module.
func ModuleDir(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
