package policy_test

import (
	"strings"
	"testing"
)

// TestLockedVariable verifies that a locked variable is compared with the entry that takes effect.
func TestLockedVariable(t *testing.T) {
	p := readPolicy(t, "cluster: {defaults: {env: "+
		"{NCCL_DEBUG: {value: WARN, locked: true}, EMPTY: {value: '', locked: true}}}}")
	for name, test := range map[string]struct{ env, want string }{
		"the locked value is allowed": {env: "{name: NCCL_DEBUG, value: WARN}"},
		"the locked value after another value is allowed": {
			env: "{name: NCCL_DEBUG, value: TRACE}, {name: NCCL_DEBUG, value: WARN}",
		},
		"another value after the locked value is not allowed": {
			env:  "{name: NCCL_DEBUG, value: WARN}, {name: NCCL_DEBUG, value: TRACE}",
			want: "TRACE",
		},
		"a source after the locked value is not allowed": {
			env:  "{name: NCCL_DEBUG, value: WARN}, {name: NCCL_DEBUG, valueFrom: {fieldRef: {fieldPath: metadata.name}}}",
			want: "<valueFrom>",
		},
		"a source instead of an empty value is not allowed": {
			env:  "{name: NCCL_DEBUG, value: WARN}, {name: EMPTY, valueFrom: {fieldRef: {fieldPath: metadata.name}}}",
			want: "<valueFrom>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := strings.Replace(bigJob, "        resources", "        env: ["+test.env+"]\n        resources", 1)
			var got string
			for _, f := range p.Judge(newInput(t, applyDefaults(t, p, readJob(t, job))))[0].Findings {
				got += f.Value
			}
			if got != test.want {
				t.Errorf("value that is not allowed: %q, want %q", got, test.want)
			}
		})
	}
}
