package gang_test

import (
	"math/big"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
)

func TestRankOf(t *testing.T) {
	const offset, jobIndex, setIndex = gang.LabelRankOffset, batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel
	for name, c := range map[string]struct {
		reason string
		labels map[string]string
		want   int32
		denied []string // parts of the errors, in their order; nil for none
	}{
		"Job":             {"the first worker comes after one master", map[string]string{offset: "1", jobIndex: "0"}, 1, nil},
		"StatefulSet":     {"", map[string]string{offset: "2", setIndex: "7"}, 9, nil},
		"offset 0":        {"it means what it says, though nobody needs to write it", map[string]string{offset: "0", jobIndex: "3"}, 3, nil},
		"largest":         {"the sum still is an int32", map[string]string{offset: "999999999", jobIndex: "999999999"}, 1_999_999_998, nil},
		"rank given":      {"a label of the user's own has no say", map[string]string{offset: "1", jobIndex: "4", gang.LabelRank: "77"}, 5, nil},
		"no offset":       {"such a pod's rank is its index, and nobody asks", map[string]string{jobIndex: "3"}, 0, []string{"rank-offset]: Required"}},
		"no labels":       {"", nil, 0, []string{"rank-offset]: Required"}},
		"no index":        {"a Job that is not Indexed", map[string]string{offset: "1"}, 0, []string{"metadata.labels: Required value: the pod has rollcall.training/rank-offset, and no index"}},
		"two indexes":     {"one of them comes from the template, and is the same on each pod", map[string]string{offset: "1", jobIndex: "0", setIndex: "3"}, 0, []string{"two indexes"}},
		"offset no word":  {"", map[string]string{offset: "one", jobIndex: "0"}, 0, []string{`rank-offset]: Invalid value: "one"`}},
		"both garbled":    {"all mistakes are named", map[string]string{offset: "-1", jobIndex: "x"}, 0, []string{`Invalid value: "-1"`, `Invalid value: "x"`}},
		"empty index":     {"a label may be empty", map[string]string{offset: "1", jobIndex: ""}, 0, []string{`job-completion-index]: Invalid value: ""`}},
		"leading zero":    {"octal to some", map[string]string{offset: "1", jobIndex: "03"}, 0, []string{`Invalid value: "03"`}},
		"too large":       {"the sum could leave an int32", map[string]string{offset: "1000000000", jobIndex: "3"}, 0, []string{`Invalid value: "1000000000"`}},
		"a line too many": {"a dollar also matches before the last line break in some dialects", map[string]string{offset: "1\n", jobIndex: "3"}, 0, []string{"Invalid value"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := gang.RankOf(c.labels)
			if len(errs) != len(c.denied) {
				t.Fatalf("%s: errors %v, want %d", c.reason, errs, len(c.denied))
			}
			for i, want := range c.denied {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("%s: error %q, want one with %q", c.reason, errs[i], want)
				}
			}
			if got != c.want {
				t.Errorf("%s: rank %d, want %d", c.reason, got, c.want)
			}
		})
	}
}

// FuzzRankOf: a rank is the exact sum, written as Kubernetes writes numbers, or there
// is none.
func FuzzRankOf(f *testing.F) {
	for _, seed := range [][2]string{{"1", "0"}, {"999999999", "999999999"}, {"01", "-0"}, {"", "+3"}, {"1e3", "0x1"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, offset, index string) {
		got, errs := gang.RankOf(map[string]string{gang.LabelRankOffset: offset, appsv1.PodIndexLabel: index})
		a, aOK := new(big.Int).SetString(offset, 10)
		b, bOK := new(big.Int).SetString(index, 10)
		canonical := aOK && bOK && a.String() == offset && b.String() == index && a.Sign() >= 0 && b.Sign() >= 0 &&
			len(offset) <= 9 && len(index) <= 9
		if canonical != (len(errs) == 0) {
			t.Fatalf("%q + %q: errors %v", offset, index, errs)
		}
		if canonical && new(big.Int).Add(a, b).Int64() != int64(got) {
			t.Errorf("%q + %q = %d", offset, index, got)
		}
	})
}
