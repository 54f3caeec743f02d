package gang

import (
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// nearest returns the candidate that a misspelt word most likely stands for, or
// "" when none is near. Two edits, or a third of a long word, is how far typing
// mistakes and singular-plural slips go; beyond that a guess misleads. A first
// part, such as nproc for nproc-per-node, is as good as the whole.
func nearest(word string, candidates []string) string {
	for _, c := range candidates {
		if word != "" && strings.HasPrefix(c, word+"-") {
			return c
		}
	}
	best, bound := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(word, c); d < bound {
			best, bound = c, d
		}
	}
	return best
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
