package blueprint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCalls(t *testing.T) {
	many, single := Former{Prefix: "train-worker-"}, Former{Prefix: "train-launcher", Single: true}
	tests := []struct {
		reason string
		former Former
		text   string
		want   []call
	}{
		{"a host", many, "train-worker-0", []call{{end: 14}}},
		{"a host in its domain, and another", many, "train-worker-1.train:22,train-worker-12", []call{{end: 14, index: 1}, {start: 24, end: 39, index: 12}}},
		{"a longer name that ends alike", many, "pretrain-worker-0 x-train-worker-0", nil},
		{"a longer name that begins alike", many, "train-worker-0-data train-worker-0a", nil},
		{"a variable of a shell", many, "ping train-worker-$i", []call{{start: 5, end: 18, computed: true}}},
		{"braces", many, "train-worker-{0..3} train-worker-${i}", []call{{end: 13, computed: true}, {start: 20, end: 33, computed: true}}},
		{"a text that is joined to a number", many, `"train-worker-" + str(i)`, []call{{start: 1, end: 14, computed: true}}},
		{"a prefix by itself", many, "train-worker-", []call{{end: 13, computed: true}}},
		{"a prefix of something else", many, "train-worker-x", nil},
		{"an index that no pod has", many, "train-worker-99999999999", nil},
		{"a pod without an index", single, "train-launcher:2,train-launcher", []call{{end: 14}, {start: 17, end: 31}}},
		{"not one of its kin", single, "train-launcher-0 train-launchers", nil},
		{"no name to be called by", Former{}, "anything", nil},
		{"a folder, and a file in one", many, "--log=/logs/train-worker-0 --out=train-worker-0/out.log", nil},
		{"a file", single, "bash /opt/train-launcher.sh train-launcher.log", nil},
		{"a word of several", many, "run_train-worker-0 train-worker-0_b", nil},
		{"a host in an address", many, "http://train-worker-0/x tcp://train-worker-1:23", []call{{start: 7, end: 21}, {start: 30, end: 44, index: 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.former.calls(tt.text), cmp.AllowUnexported(call{})); diff != "" {
				t.Errorf("%q: -want +got:\n%s", tt.text, diff)
			}
		})
	}
}
