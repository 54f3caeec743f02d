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

// Main is the main function of a recording program. It records every manifest
// in the given directories below -data, and either writes what differs or, with
// -check, fails on it.
func Main(ctx context.Context, record Recorder, dirs ...string) {
	data := flag.String("data", "../../../migrate/testdata/operators", "the `directory` of manifests and recordings")
	check := flag.Bool("check", false, "write nothing; fail if a recording is not what the operator makes today")
	flag.Parse()
	var failed bool
	for _, d := range dirs {
		if err := records(ctx, record, filepath.Join(*data, d), *check); err != nil {
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

func records(ctx context.Context, record Recorder, dir string, check bool) error {
	manifests, err := filepath.Glob(filepath.Join(dir, "*"+manifestSuffix))
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		return fmt.Errorf("%s has no manifest", dir)
	}
	var errs []error
	stale := 0
	for _, m := range manifests {
		differs, err := one(ctx, record, m, check)
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

// one records one manifest and says whether its recording differs.
func one(ctx context.Context, record Recorder, manifest string, check bool) (bool, error) {
	objects, err := ReadManifest(manifest)
	if err != nil {
		return false, err
	}
	r, err := record(ctx, objects)
	if err != nil {
		return false, fmt.Errorf("recording %s: %w", manifest, err)
	}
	if len(r.Pods) == 0 {
		return false, fmt.Errorf("recording %s: the operator made no pod", manifest)
	}
	r.sort()
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
		return true, fmt.Errorf("%s is stale: make operators, and read the difference", file)
	default:
		return true, os.WriteFile(file, now.Bytes(), 0o644)
	}
}

// Operator names a module that this program is built with and its version.
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

// ModuleDir is where the source of a module that this program is built with lies.
// The program has to run in the directory of its own module.
func ModuleDir(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
