package roster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Ranges are ranks, as ranges that include both ends, ascending and apart.
type Ranges [][2]int32

// RangesOf collapses ranks.
func RangesOf(ranks []int32) Ranges {
	ranks = slices.Compact(slices.Sorted(slices.Values(ranks)))
	var out Ranges
	for _, n := range ranks {
		if last := len(out) - 1; last >= 0 && out[last][1] == n-1 {
			out[last][1] = n
			continue
		}
		out = append(out, [2]int32{n, n})
	}
	return out
}

// ParseRanges reads what users write: 3, or 0,4-7.
func ParseRanges(text string) (Ranges, error) {
	var out Ranges
	for item := range strings.SplitSeq(text, ",") {
		first, last, span := strings.Cut(strings.TrimSpace(item), "-")
		if !span {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 31)
		b, errB := strconv.ParseUint(last, 10, 31)
		if errA != nil || errB != nil || a > b {
			return nil, fmt.Errorf("reading the ranks %q: %q is neither a rank nor a range such as 4-7", text, item)
		}
		out = append(out, [2]int32{int32(a), int32(b)})
	}
	return out, nil
}

// Has reports whether a rank is among them.
func (r Ranges) Has(rank int32) bool {
	return slices.ContainsFunc(r, func(s [2]int32) bool { return s[0] <= rank && rank <= s[1] })
}

// String writes them as users write them; of many, the first few.
func (r Ranges) String() string {
	const most = 4
	var out []string
	for _, s := range r {
		switch {
		case len(out) == most:
			out = append(out, "…")
			return strings.Join(out, ",")
		case s[0] == s[1]:
			out = append(out, strconv.Itoa(int(s[0])))
		default:
			out = append(out, fmt.Sprintf("%d-%d", s[0], s[1]))
		}
	}
	return strings.Join(out, ",")
}
