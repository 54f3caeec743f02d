package ir

import (
	"fmt"
	"testing"
)

func TestReplaceHosts(t *testing.T) {
	indexed, single := SourceNames{Prefix: "train-worker-"}, SourceNames{Prefix: "train-launcher", SinglePod: true}
	tests := map[string]struct {
		names SourceNames
		text  string
		want  string // with the names replaced by their indexes
	}{
		"host": {
			names: indexed,
			text:  "train-worker-0",
			want:  `[0]`,
		},
		"host with a domain and a second host": {
			names: indexed,
			text:  "train-worker-1.train:22,train-worker-12",
			want:  `[1].train:22,[12]`,
		},
		"longer name with the same end": {
			names: indexed,
			text:  "pretrain-worker-0 x-train-worker-0",
			want:  `pretrain-worker-0 x-train-worker-0`,
		},
		"longer name with the same start": {
			names: indexed,
			text:  "train-worker-0-data train-worker-0a",
			want:  `train-worker-0-data train-worker-0a`,
		},
		"variable of a shell": {
			names: indexed,
			text:  "ping train-worker-$i",
			want:  `ping [computed]$i`,
		},
		"braces": {
			names: indexed,
			text:  "train-worker-{0..3} train-worker-${i}",
			want:  `[computed]{0..3} [computed]${i}`,
		},
		"text that a program joins to a number": {
			names: indexed,
			text:  `"train-worker-" + str(i)`,
			want:  `"[computed]" + str(i)`,
		},
		"only the prefix": {
			names: indexed,
			text:  "train-worker-",
			want:  `[computed]`,
		},
		"prefix of another name": {
			names: indexed,
			text:  "train-worker-x",
			want:  `train-worker-x`,
		},
		"index out of range": {
			names: indexed,
			text:  "train-worker-99999999999",
			want:  `train-worker-99999999999`,
		},
		"pod without an index": {
			names: single,
			text:  "train-launcher:2,train-launcher",
			want:  `[0]:2,[0]`,
		},
		"similar names": {
			names: single,
			text:  "train-launcher-0 train-launchers",
			want:  `train-launcher-0 train-launchers`,
		},
		"role without hostnames": {
			text: "anything",
			want: `anything`,
		},
		"folder and a file in a folder": {
			names: indexed,
			text:  "--log=/logs/train-worker-0 --out=train-worker-0/out.log",
			want:  `--log=/logs/train-worker-0 --out=train-worker-0/out.log`,
		},
		"file": {
			names: single,
			text:  "bash /opt/train-launcher.sh train-launcher.log",
			want:  `bash /opt/train-launcher.sh train-launcher.log`,
		},
		"word with underscores": {
			names: indexed,
			text:  "run_train-worker-0 train-worker-0_b",
			want:  `run_train-worker-0 train-worker-0_b`,
		},
		"host in a URL": {
			names: indexed,
			text:  "http://train-worker-0/x tcp://train-worker-1:23",
			want:  `http://[0]/x tcp://[1]:23`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			hosts, _ := tt.names.hosts(func(index int32, computed string) string {
				if computed != "" {
					return "[computed]"
				}
				return fmt.Sprintf("[%d]", index)
			})
			if got := hosts.Replace(tt.text); got != tt.want {
				t.Errorf("%q became %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}
