package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// RankRanges is a set of ranks. Each range includes both of its ends. Ranges from [NewRankRanges]
// are ascending and do not touch; ranges from [ParseRankRanges] are in the order of the input.
type RankRanges [][2]int32

// NewRankRanges returns the smallest number of ranges that contain exactly the given ranks. The
// ranks may be in any order and may repeat.
func NewRankRanges(ranks []int32) RankRanges {
	ranks = slices.Compact(slices.Sorted(slices.Values(ranks)))
	var ranges RankRanges
	for _, rank := range ranks {
		if last := len(ranges) - 1; last >= 0 && ranges[last][1] == rank-1 {
			ranges[last][1] = rank
			continue
		}
		ranges = append(ranges, [2]int32{rank, rank})
	}
	return ranges
}

// ParseRankRanges parses ranks and ranges that are separated by commas, such as 3 or 0,4-7.
func ParseRankRanges(text string) (RankRanges, error) {
	var ranges RankRanges
	for item := range strings.SplitSeq(text, ",") {
		firstText, lastText, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			lastText = firstText
		}
		first, firstErr := strconv.ParseUint(firstText, 10, 31)
		last, lastErr := strconv.ParseUint(lastText, 10, 31)
		if firstErr != nil || lastErr != nil || first > last {
			return nil, fmt.Errorf("parsing ranks %q: %q is not a rank such as 3 or a range such as 4-7", text, item)
		}
		ranges = append(ranges, [2]int32{int32(first), int32(last)})
	}
	return ranges, nil
}

// Contains reports whether the set contains a rank.
func (r RankRanges) Contains(rank int32) bool {
	return slices.ContainsFunc(r, func(bounds [2]int32) bool { return bounds[0] <= rank && rank <= bounds[1] })
}

// String returns the ranges in the syntax of [ParseRankRanges]. It replaces all ranges after the
// fourth by an ellipsis, so that the text fits in a line.
func (r RankRanges) String() string {
	const limit = 4
	var items []string
	for _, bounds := range r {
		switch {
		case len(items) == limit:
			items = append(items, "…")
			return strings.Join(items, ",")
		case bounds[0] == bounds[1]:
			items = append(items, strconv.Itoa(int(bounds[0])))
		default:
			items = append(items, fmt.Sprintf("%d-%d", bounds[0], bounds[1]))
		}
	}
	return strings.Join(items, ",")
}
