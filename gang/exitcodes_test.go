package gang_test

import (
	"testing"

	"rollcall.training/gang"
)

func TestExitCodes(t *testing.T) {
	for text, c := range map[string]struct {
		reason  string
		in, out []int32
		invalid bool
	}{
		"1-127":      {"the program's own codes, as Kubeflow's ExitCode has them", []int32{1, 64, 127}, []int32{0, 128, 137}, false},
		"2, 64-78":   {"spaces do no harm", []int32{2, 64, 78}, []int32{1, 3, 63, 79}, false},
		"255":        {"the largest", []int32{255}, []int32{254}, false},
		"0":          {"the good end", nil, nil, true},
		"256":        {"no process ends with it", nil, nil, true},
		"9-3":        {"turned round", nil, nil, true},
		"":           {"nothing", nil, nil, true},
		"1,":         {"nothing after the comma", nil, nil, true},
		"-1":         {"no number before the dash", nil, nil, true},
		"1-2-3":      {"two dashes", nil, nil, true},
		"SIGKILL":    {"a word", nil, nil, true},
		"4294967297": {"does not wrap round to 1", nil, nil, true},
	} {
		codes, err := gang.ParseExitCodes(text)
		if (err != nil) != c.invalid {
			t.Errorf("%q: error %v: %s", text, err, c.reason)
		}
		for _, n := range c.in {
			if !codes.Has(n) {
				t.Errorf("%q lacks %d: %s", text, n, c.reason)
			}
		}
		for _, n := range c.out {
			if codes.Has(n) {
				t.Errorf("%q has %d: %s", text, n, c.reason)
			}
		}
	}
}
