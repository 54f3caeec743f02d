package ranges_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/ranges"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		numbers []int32
		want    string
	}{
		"one number has no range":             {numbers: []int32{3}, want: "3"},
		"numbers are sorted and deduplicated": {numbers: []int32{5, 3, 4, 4}, want: "3-5"},
		"gaps separate ranges":                {numbers: []int32{0, 2, 3, 9}, want: "0,2-3,9"},
		"no number is an empty text":          {want: ""},
		"the largest number has no number above": {
			numbers: []int32{math.MaxInt32, math.MaxInt32 - 1}, want: "2147483646-2147483647",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ranges.Of(c.numbers).String(); got != c.want {
				t.Errorf("Of(%v) = %q, want %q", c.numbers, got, c.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text, wantInvalid string
		want              ranges.Set
	}{
		"spaces are allowed":          {text: "0, 4-7", want: ranges.Set{{0, 0}, {4, 7}}},
		"an empty text":               {text: "", wantInvalid: `""`},
		"an empty item":               {text: "1,,2", wantInvalid: `""`, want: ranges.Set{{1, 1}, {2, 2}}},
		"not a number":                {text: "all", wantInvalid: `"all"`},
		"a descending range":          {text: "7-4", wantInvalid: `"7-4"`},
		"a negative number":           {text: "-1", wantInvalid: `"-1"`},
		"a range without end":         {text: "4-", wantInvalid: `"4-"`},
		"a number above the maximum":  {text: "3,10", wantInvalid: `"10"`, want: ranges.Set{{3, 3}}},
		"a range above the maximum":   {text: "3-10", wantInvalid: `"3-10"`},
		"only the first is in quotes": {text: "a,b", wantInvalid: `"a"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, invalid := ranges.Parse(c.text, 0, 9)
			if diff := cmp.Diff(c.want, got); invalid != c.wantInvalid || diff != "" {
				t.Errorf("invalid %q, want %q (-want +got):\n%s", invalid, c.wantInvalid, diff)
			}
		})
	}
}
