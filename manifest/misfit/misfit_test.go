package misfit

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestOf(t *testing.T) {
	const quantity = "write a number with one of the endings m, k, M, G, T, Ki, Mi, Gi, Ti, or none"
	for text, c := range map[string]struct {
		reason string
		want   []Misfit
	}{
		`{"containers":[{"name":"a"},{"name":"b","image":1}]}`: {"the item of a list",
			[]Misfit{{"containers[1].image", "it is a number, and has to be a string", "put it in quotes"}}},
		`{"containers":{"name":"a"}}`:      {"a mapping for a list", []Misfit{{"containers", "it is a mapping, and has to be a list", ""}}},
		`{"nodeSelector":{"a.b/c":true}}`:  {"a key with dots", []Misfit{{"nodeSelector[a.b/c]", "it is a boolean, and has to be a string", "put it in quotes"}}},
		`{"activeDeadlineSeconds":"soon"}`: {"a text for a number", []Misfit{{"activeDeadlineSeconds", "it is a string, and has to be a whole number", ""}}},
		`{"containers":[{"resources":{"limits":{"example.com/x":"many","cpu":"1"}}}]}`: {"a quantity, of which the decoder says no place",
			[]Misfit{{"containers[0].resources.limits[example.com/x]", `"many" is no quantity`, quantity}}},
	} {
		err := json.Unmarshal([]byte(text), &corev1.PodSpec{})
		if err == nil {
			t.Fatalf("%s can be read: %s", text, c.reason)
		}
		if diff := cmp.Diff(c.want, Of([]byte(text), err)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", c.reason, text, diff)
		}
	}
	if got := Of([]byte("{"), nil); got != nil {
		t.Errorf("%v of what is no JSON", got)
	}
}
