package traces

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed testdata
var testdata embed.FS

// Recorded returns the records of a Kubernetes release by script. It is empty for a release without a file.
func Recorded(release string) (map[string][]Record, error) {
	out := map[string][]Record{}
	data, err := testdata.ReadFile(fileOf(release))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading recorded traces: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		return nil, fmt.Errorf("decoding recorded traces: %w", err)
	}
	return out, nil
}

// Write rewrites the records of a Kubernetes release below the directory of this package.
func Write(dir, release string, records map[string][]Record) error {
	data, err := yaml.Marshal(records)
	if err != nil {
		return fmt.Errorf("encoding traces: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileOf(release)), data, 0o600); err != nil {
		return fmt.Errorf("writing traces: %w", err)
	}
	return nil
}

func fileOf(release string) string { return "testdata/" + release + ".yaml" }

// Diff returns the steps that differ; empty if all are the same.
func Diff(want, got []Record) string {
	var out strings.Builder
	for i := range max(len(want), len(got)) {
		a, b := encode(want, i), encode(got, i)
		if a != b {
			fmt.Fprintf(&out, "step %d, recorded:\n%snow:\n%s", i, a, b)
		}
	}
	return out.String()
}

func encode(records []Record, i int) string {
	if i >= len(records) {
		return "  missing\n"
	}
	data, err := yaml.Marshal(records[i])
	if err != nil {
		panic(err) // strings are always encodable
	}
	return "  " + strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\n  ") + "\n"
}
