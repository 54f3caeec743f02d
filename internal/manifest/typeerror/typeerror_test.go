package typeerror

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestExplain(t *testing.T) {
	for name, c := range map[string]struct {
		text string // a PodSpec that cannot be decoded
		want Mismatch
	}{
		"a number instead of a string in an item of a list": {
			text: `{"containers":[{"name":"a"},{"name":"b","image":1}]}`,
			want: Mismatch{
				Path:    "containers[1].image",
				Message: "must be of type string, not number",
				Fix:     "put the value in quotes",
			},
		},
		"a mapping instead of a list": {
			text: `{"containers":{"name":"a"}}`,
			want: Mismatch{Path: "containers", Message: "must be of type list, not mapping"},
		},
		"a boolean instead of a string below a key with dots": {
			text: `{"nodeSelector":{"a.b/c":true}}`,
			want: Mismatch{
				Path:    "nodeSelector[a.b/c]",
				Message: "must be of type string, not boolean",
				Fix:     "put the value in quotes",
			},
		},
		"a string instead of an integer": {
			text: `{"activeDeadlineSeconds":"soon"}`,
			want: Mismatch{Path: "activeDeadlineSeconds", Message: "must be of type integer, not string"},
		},
		"an invalid quantity, for which the decoder reports no position": {
			text: `{"containers":[{"resources":{"limits":{"example.com/x":"many","cpu":"1"}}}]}`,
			want: Mismatch{
				Path:    "containers[0].resources.limits[example.com/x]",
				Message: `"many" is not a quantity`,
				Fix:     "use a number with an optional suffix: m, k, M, G, T, Ki, Mi, Gi or Ti",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := json.Unmarshal([]byte(c.text), &corev1.PodSpec{})
			if err == nil {
				t.Fatalf("%s was decoded", c.text)
			}
			if diff := cmp.Diff([]Mismatch{c.want}, Explain([]byte(c.text), err)); diff != "" {
				t.Errorf("Explain(%s) (-want +got):\n%s", c.text, diff)
			}
		})
	}
	if got := Explain([]byte("{"), nil); got != nil {
		t.Errorf("Explain() = %v for invalid JSON, want nil", got)
	}
}
