package gang_test

import (
	"math/big"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
)

func TestPodRank(t *testing.T) {
	const offset, jobIndex, setIndex = gang.LabelRankOffset, batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel
	for name, c := range map[string]struct {
		labels   map[string]string
		want     int32
		wantErrs []string // substrings of the errors in their order
	}{
		"pod of a Job": {
			labels: map[string]string{offset: "1", jobIndex: "0"},
			want:   1,
		},
		"pod of a StatefulSet": {
			labels: map[string]string{offset: "2", setIndex: "7"},
			want:   9,
		},
		"offset 0 is allowed": {
			labels: map[string]string{offset: "0", jobIndex: "3"},
			want:   3,
		},
		"sum of the largest values fits in an int32": {
			labels: map[string]string{offset: "999999999", jobIndex: "999999999"},
			want:   1_999_999_998,
		},
		"rank label of the user is ignored": {
			labels: map[string]string{offset: "1", jobIndex: "4", gang.LabelRank: "77"},
			want:   5,
		},
		"missing offset": {
			labels:   map[string]string{jobIndex: "3"},
			wantErrs: []string{"rank-offset]: Required"},
		},
		"no labels": {
			wantErrs: []string{"rank-offset]: Required"},
		},
		"pod of a Job that is not Indexed": {
			labels:   map[string]string{offset: "1"},
			wantErrs: []string{"metadata.labels: Required value: the pod has rollcall.training/rank-offset, but no index"},
		},
		"second index comes from the template": {
			labels:   map[string]string{offset: "1", jobIndex: "0", setIndex: "3"},
			wantErrs: []string{"two indexes"},
		},
		"offset is not a number": {
			labels:   map[string]string{offset: "one", jobIndex: "0"},
			wantErrs: []string{`rank-offset]: Invalid value: "one"`},
		},
		"both values are invalid": {
			labels:   map[string]string{offset: "-1", jobIndex: "x"},
			wantErrs: []string{`Invalid value: "-1"`, `Invalid value: "x"`},
		},
		"empty index": {
			labels:   map[string]string{offset: "1", jobIndex: ""},
			wantErrs: []string{`job-completion-index]: Invalid value: ""`},
		},
		"leading zero, which some tools read as octal": {
			labels:   map[string]string{offset: "1", jobIndex: "03"},
			wantErrs: []string{`Invalid value: "03"`},
		},
		"offset with ten digits": {
			labels:   map[string]string{offset: "1000000000", jobIndex: "3"},
			wantErrs: []string{`Invalid value: "1000000000"`},
		},
		"trailing line break, which matches the dollar in some dialects": {
			labels:   map[string]string{offset: "1\n", jobIndex: "3"},
			wantErrs: []string{"Invalid value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := gang.PodRank(c.labels)
			if len(errs) != len(c.wantErrs) {
				t.Fatalf("PodRank() returned errors %v, want %d errors", errs, len(c.wantErrs))
			}
			for i, want := range c.wantErrs {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("error %q does not contain %q", errs[i], want)
				}
			}
			if got != c.want {
				t.Errorf("PodRank() = %d, want %d", got, c.want)
			}
		})
	}
}

// FuzzPodRank verifies that a rank is the exact sum of two canonical decimal numbers, and that PodRank
// rejects all other text.
func FuzzPodRank(f *testing.F) {
	for _, seed := range [][2]string{{"1", "0"}, {"999999999", "999999999"}, {"01", "-0"}, {"", "+3"}, {"1e3", "0x1"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, offset, index string) {
		got, errs := gang.PodRank(map[string]string{gang.LabelRankOffset: offset, appsv1.PodIndexLabel: index})
		offsetValue, offsetOK := new(big.Int).SetString(offset, 10)
		indexValue, indexOK := new(big.Int).SetString(index, 10)
		canonical := offsetOK && offsetValue.String() == offset && offsetValue.Sign() >= 0 && len(offset) <= 9 &&
			indexOK && indexValue.String() == index && indexValue.Sign() >= 0 && len(index) <= 9
		if canonical != (len(errs) == 0) {
			t.Fatalf("%q + %q: errors %v", offset, index, errs)
		}
		if canonical && new(big.Int).Add(offsetValue, indexValue).Int64() != int64(got) {
			t.Errorf("%q + %q = %d", offset, index, got)
		}
	})
}
