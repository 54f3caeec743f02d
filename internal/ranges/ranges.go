// Package ranges reads and writes sets of numbers as users and Kubernetes write them: numbers and ranges that are
// separated by commas, such as 0,3-5.
package ranges

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Set is a set of numbers as ranges. Each range includes both of its ends. The ranges of [Of] are ascending and do
// not touch; those of [Parse] are in the order of the text.
type Set [][2]int32

// Of returns the smallest number of ranges that contain exactly the given numbers, which may be in any order and may
// repeat.
func Of(numbers []int32) Set {
	var out Set
	for _, n := range slices.Sorted(slices.Values(numbers)) {
		if last := len(out) - 1; last >= 0 && n-1 <= out[last][1] {
			out[last][1] = n
			continue
		}
		out = append(out, [2]int32{n, n})
	}
	return out
}

// Parse parses numbers from minimum to maximum. It leaves out the items that are neither a number nor a range of
// numbers, and returns the first of them in quotes; empty if there are none.
func Parse(text string, minimum, maximum int32) (set Set, invalid string) {
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			last = first
		}
		low, lowErr := strconv.ParseInt(first, 10, 32)
		high, highErr := strconv.ParseInt(last, 10, 32)
		if lowErr != nil || highErr != nil || low < int64(minimum) || low > high || high > int64(maximum) {
			invalid = cmp.Or(invalid, strconv.Quote(item))
			continue
		}
		set = append(set, [2]int32{int32(low), int32(high)})
	}
	return set, invalid
}

// Contains reports whether a number is in the set.
func (s Set) Contains(n int32) bool {
	return slices.ContainsFunc(s, func(r [2]int32) bool { return r[0] <= n && n <= r[1] })
}

// String returns the set in the notation of [Parse].
func (s Set) String() string {
	var items []string
	for _, r := range s {
		item := strconv.Itoa(int(r[0]))
		if r[1] != r[0] {
			item += fmt.Sprintf("-%d", r[1])
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}
