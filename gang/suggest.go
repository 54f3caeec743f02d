package gang

import (
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// A search for the closest match compares only texts of names, and only with a short list. Its cost
// is the product of the lengths of word and candidates.
const (
	maxSuggestionLength = 128
	maxSuggestions      = 100
)

// findClosestMatch returns the most similar candidate of a misspelled word; empty if no candidate is
// similar. Similar means at most two edits, or a third of the length for a long word, which covers
// typing mistakes and plurals. A candidate that starts with the word and a dash also matches, such
// as nproc-per-node for nproc. A candidate at a distance of one edit precedes it, such as gpus for gpu.
// The result is empty for more than maxSuggestions candidates.
func findClosestMatch(word string, candidates []string) string {
	if len(word) > maxSuggestionLength || len(candidates) > maxSuggestions {
		return ""
	}
	best, distance := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if len(c) > maxSuggestionLength {
			continue
		}
		if d := levenshtein.ComputeDistance(word, c); d < distance {
			best, distance = c, d
		}
	}
	if distance <= 1 {
		return best
	}
	for _, c := range candidates {
		if word != "" && strings.HasPrefix(c, word+"-") {
			return c
		}
	}
	return best
}

// SuggestMatch returns the end of a message that suggests the closest match of a misspelled word; empty if there is
// none.
func SuggestMatch(word string, candidates []string) string {
	if closest := findClosestMatch(word, candidates); closest != "" {
		return "; did you mean " + closest + "?"
	}
	return ""
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
