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
	// Name is its file name.
	Name string
	// Blocks are its fenced blocks, in their order.
	Blocks []string
}

// dir is where the documents stand, from this file.
func dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "shared", "seeds")
}

// Read reads all documents. The error wraps fs.ErrNotExist where they are missing.
func Read() ([]Seed, error) {
	entries, err := os.ReadDir(dir())
	if err != nil {
		return nil, fmt.Errorf("reading the seeds: %w", err)
	}
	var out []Seed
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir(), e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the seeds: %w", err)
		}
		out = append(out, Seed{Name: e.Name(), Blocks: blocks(string(text))})
	}
	return out, nil
}

// blocks are the fenced blocks of a text, without the word that names their language.
func blocks(text string) []string {
	// One of the documents was encoded twice on its way, which left control characters in
	// its comments that no YAML may have.
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

// kind finds the kind of a manifest.
var kind = regexp.MustCompile(`(?m)^kind: *"?(\w+)"?`)

// Manifests are the document's blocks that hold Kubernetes objects.
func (s Seed) Manifests() []string {
	var out []string
	for _, b := range s.Blocks {
		if strings.Contains(b, "apiVersion:") && kind.MatchString(b) {
			out = append(out, b)
		}
	}
	return out
}

// Kinds counts the objects of the document by their kind.
func (s Seed) Kinds() map[string]int {
	out := map[string]int{}
	for _, m := range s.Manifests() {
		for _, found := range kind.FindAllStringSubmatch(m, -1) {
			out[found[1]]++
		}
	}
	return out
}

// Named is the manifest of a kind and a name; empty when there is none.
func (s Seed) Named(want, name string) string {
	at := slices.IndexFunc(s.Manifests(), func(m string) bool {
		found := kind.FindStringSubmatch(m)
		return found != nil && found[1] == want && regexp.MustCompile(`(?m)^  name: *"?`+regexp.QuoteMeta(name)+`"?$`).MatchString(m)
	})
	if at < 0 {
		return ""
	}
	return s.Manifests()[at]
}

// Program is the first block that contains a word; empty when there is none.
func (s Seed) Program(word string) string {
	for _, b := range s.Blocks {
		if strings.Contains(b, word) && !kind.MatchString(b) {
			return b
		}
	}
	return ""
}
