package simulation

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// parseIndexes returns the indexes in the format of completedIndexes.
func parseIndexes(text string) sets.Set[int32] {
	out := sets.Set[int32]{}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			last, _ = strconv.Atoi(to)
		}
		for i := first; i <= last; i++ {
			out.Insert(int32(i))
		}
	}
	return out
}

// formatIndexes is the inverse of parseIndexes.
func formatIndexes(indexes sets.Set[int32]) string {
	var parts []string
	sorted := sets.List(indexes)
	for i := 0; i < len(sorted); i++ {
		first := sorted[i]
		for i+1 < len(sorted) && sorted[i+1] == sorted[i]+1 {
			i++
		}
		text, last := strconv.Itoa(int(first)), strconv.Itoa(int(sorted[i]))
		switch sorted[i] - first {
		case 0:
			parts = append(parts, text)
		case 1:
			parts = append(parts, text, last)
		default:
			parts = append(parts, text+"-"+last)
		}
	}
	return strings.Join(parts, ",")
}
