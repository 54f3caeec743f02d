package seeds

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Seed is one document.
type Seed struct {
	// Name is the file name.
	Name string
	// Blocks are the fenced blocks in the order of the document.
	Blocks []string
}

// seedsDir returns the directory of the documents, relative to this source file.
func seedsDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "shared", "seeds")
}

// Read reads all documents. The error wraps fs.ErrNotExist if they are missing.
func Read() ([]Seed, error) {
	entries, err := os.ReadDir(seedsDir())
	if err != nil {
		return nil, fmt.Errorf("reading the seeds: %w", err)
	}
	var out []Seed
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(seedsDir(), e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the seeds: %w", err)
		}
		out = append(out, Seed{Name: e.Name(), Blocks: parseFencedBlocks(string(text))})
	}
	return out, nil
}

// parseFencedBlocks returns the fenced blocks of a text without their language.
func parseFencedBlocks(text string) []string {
	// One document was encoded twice. Its comments contain control characters that YAML does not
	// permit.
	text = strings.Map(func(r rune) rune {
		if r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
	var out []string
	for i, part := range strings.Split(text, "```") {
		if i%2 == 0 {
			continue
		}
		if _, rest, ok := strings.Cut(part, "\n"); ok {
			out = append(out, rest)
		}
	}
	return out
}

// kindPattern matches the kind of a manifest.
var kindPattern = regexp.MustCompile(`(?m)^kind: *"?(\w+)"?`)

// Manifests returns the blocks that contain Kubernetes objects.
func (s Seed) Manifests() []string {
	var out []string
	for _, b := range s.Blocks {
		if strings.Contains(b, "apiVersion:") && kindPattern.MatchString(b) {
			out = append(out, b)
		}
	}
	return out
}

// CountKinds returns the number of objects of each kind.
func (s Seed) CountKinds() map[string]int {
	out := map[string]int{}
	for _, m := range s.Manifests() {
		for _, found := range kindPattern.FindAllStringSubmatch(m, -1) {
			out[found[1]]++
		}
	}
	return out
}

// FindManifest returns the manifest of an object, or "" if it does not exist.
func (s Seed) FindManifest(want, name string) string {
	at := slices.IndexFunc(s.Manifests(), func(m string) bool {
		found := kindPattern.FindStringSubmatch(m)
		return found != nil && found[1] == want &&
			regexp.MustCompile(`(?m)^  name: *"?`+regexp.QuoteMeta(name)+`"?$`).MatchString(m)
	})
	if at < 0 {
		return ""
	}
	return s.Manifests()[at]
}

// FindProgram returns the first block that contains word, or "" if there is none.
func (s Seed) FindProgram(word string) string {
	for _, b := range s.Blocks {
		if strings.Contains(b, word) && !kindPattern.MatchString(b) {
			return b
		}
	}
	return ""
}
