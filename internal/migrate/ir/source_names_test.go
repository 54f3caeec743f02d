package ir

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindHostReferences(t *testing.T) {
	indexed, single := SourceNames{Prefix: "train-worker-"}, SourceNames{Prefix: "train-launcher", SinglePod: true}
	tests := map[string]struct {
		names SourceNames
		text  string
		want  []hostReference
	}{
		"host": {
			names: indexed,
			text:  "train-worker-0",
			want:  []hostReference{{end: 14}},
		},
		"host with a domain and a second host": {
			names: indexed,
			text:  "train-worker-1.train:22,train-worker-12",
			want:  []hostReference{{end: 14, index: 1}, {start: 24, end: 39, index: 12}},
		},
		"longer name with the same end": {
			names: indexed,
			text:  "pretrain-worker-0 x-train-worker-0",
		},
		"longer name with the same start": {
			names: indexed,
			text:  "train-worker-0-data train-worker-0a",
		},
		"variable of a shell": {
			names: indexed,
			text:  "ping train-worker-$i",
			want:  []hostReference{{start: 5, end: 18, computed: true}},
		},
		"braces": {
			names: indexed,
			text:  "train-worker-{0..3} train-worker-${i}",
			want:  []hostReference{{end: 13, computed: true}, {start: 20, end: 33, computed: true}},
		},
		"text that a program joins to a number": {
			names: indexed,
			text:  `"train-worker-" + str(i)`,
			want:  []hostReference{{start: 1, end: 14, computed: true}},
		},
		"only the prefix": {
			names: indexed,
			text:  "train-worker-",
			want:  []hostReference{{end: 13, computed: true}},
		},
		"prefix of another name": {
			names: indexed,
			text:  "train-worker-x",
		},
		"index out of range": {
			names: indexed,
			text:  "train-worker-99999999999",
		},
		"pod without an index": {
			names: single,
			text:  "train-launcher:2,train-launcher",
			want:  []hostReference{{end: 14}, {start: 17, end: 31}},
		},
		"similar names": {
			names: single,
			text:  "train-launcher-0 train-launchers",
		},
		"role without hostnames": {
			text: "anything",
		},
		"folder and a file in a folder": {
			names: indexed,
			text:  "--log=/logs/train-worker-0 --out=train-worker-0/out.log",
		},
		"file": {
			names: single,
			text:  "bash /opt/train-launcher.sh train-launcher.log",
		},
		"word with underscores": {
			names: indexed,
			text:  "run_train-worker-0 train-worker-0_b",
		},
		"host in a URL": {
			names: indexed,
			text:  "http://train-worker-0/x tcp://train-worker-1:23",
			want:  []hostReference{{start: 7, end: 21}, {start: 30, end: 44, index: 1}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.names.findHostReferences(tt.text)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(hostReference{})); diff != "" {
				t.Errorf("%q: -want +got:\n%s", tt.text, diff)
			}
		})
	}
}
