package gang_test

import (
	"testing"

	"rollcall.training/gang"
)

func TestExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		in, out []int32
		invalid bool
	}{
		"codes of a program, as Kubeflow's ExitCode policy": {
			text: "1-127", in: []int32{1, 64, 127}, out: []int32{0, 128, 137},
		},
		"spaces are allowed":         {text: "2, 64-78", in: []int32{2, 64, 78}, out: []int32{1, 3, 63, 79}},
		"maximum":                    {text: "255", in: []int32{255}, out: []int32{254}},
		"zero means success":         {text: "0", invalid: true},
		"above the maximum":          {text: "256", invalid: true},
		"reversed range":             {text: "9-3", invalid: true},
		"empty":                      {text: "", invalid: true},
		"empty item":                 {text: "1,", invalid: true},
		"negative number":            {text: "-1", invalid: true},
		"range with two dashes":      {text: "1-2-3", invalid: true},
		"name of a signal":           {text: "SIGKILL", invalid: true},
		"number that overflows to 1": {text: "4294967297", invalid: true},
	} {
		t.Run(name, func(t *testing.T) {
			codes, err := gang.ParseExitCodes(c.text)
			if (err != nil) != c.invalid {
				t.Errorf("ParseExitCodes(%q) returned error %v, want an error: %v", c.text, err, c.invalid)
			}
			for _, code := range c.in {
				if !codes.Has(code) {
					t.Errorf("%q does not contain %d", c.text, code)
				}
			}
			for _, code := range c.out {
				if codes.Has(code) {
					t.Errorf("%q contains %d", c.text, code)
				}
			}
		})
	}
}
