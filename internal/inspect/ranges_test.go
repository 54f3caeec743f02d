package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRankRanges(t *testing.T) {
	for name, c := range map[string]struct {
		ranks []int32
		want  string
	}{
		"one rank is a number":                 {ranks: []int32{3}, want: "3"},
		"ranks are sorted and deduplicated":    {ranks: []int32{5, 3, 4, 4}, want: "3-5"},
		"gaps separate ranges":                 {ranks: []int32{0, 2, 3, 9}, want: "0,2-3,9"},
		"only the first four ranges are shown": {ranks: []int32{0, 2, 4, 6, 8, 10}, want: "0,2,4,6,…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NewRankRanges(c.ranks).String(); got != c.want {
				t.Errorf("NewRankRanges(%v) = %q, want %q", c.ranks, got, c.want)
			}
		})
	}
}

func TestParseRankRanges(t *testing.T) {
	got, err := ParseRankRanges("0, 4-7")
	if diff := cmp.Diff(RankRanges{{0, 0}, {4, 7}}, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for name, text := range map[string]string{
		"an empty item":       "1,,2",
		"not a number":        "all",
		"a descending range":  "7-4",
		"a negative rank":     "-1",
		"a range without end": "4-",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseRankRanges(text); err == nil {
				t.Errorf("ParseRankRanges(%q) = %v, want an error", text, got)
			}
		})
	}
}
