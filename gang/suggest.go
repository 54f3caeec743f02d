package gang

import (
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// FindClosestMatch returns the most similar candidate of a misspelled word; empty if no candidate is
// similar. Similar means at most two edits, or a third of the length for a long word, which covers
// typing mistakes and plurals. A candidate that starts with the word and a dash also matches, such
// as nproc-per-node for nproc.
func FindClosestMatch(word string, candidates []string) string {
	for _, c := range candidates {
		if word != "" && strings.HasPrefix(c, word+"-") {
			return c
		}
	}
	best, limit := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if distance := levenshtein.ComputeDistance(word, c); distance < limit {
			best, limit = c, distance
		}
	}
	return best
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
