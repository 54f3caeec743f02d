package volcano

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/migrate/source"
)

func TestParseFlags(t *testing.T) {
	tests := []struct {
		name    string
		plugin  string
		args    []any
		want    map[string]string
		dropped []string
	}{
		{
			name: "two dashes and a value", plugin: "pytorch",
			args: []any{"--master=chief"}, want: map[string]string{"master": "chief"},
		},
		{name: "one dash", plugin: "pytorch", args: []any{"-port=1"}, want: map[string]string{"port": "1"}},
		{
			name: "value in the next argument", plugin: "pytorch",
			args: []any{"--worker", "crew", "--port=1"}, want: map[string]string{"worker": "crew", "port": "1"},
		},
		{
			name: "switch without a value", plugin: "svc",
			args: []any{"--disable-network-policy", "--inject-hosts-env=false"},
			want: map[string]string{"disable-network-policy": "true", "inject-hosts-env": "false"},
		},
		{
			name: "arguments after an unknown flag", plugin: "pytorch",
			args: []any{"--port=1", "--speed=2", "--worker=x"}, want: map[string]string{"port": "1"},
			dropped: []string{"args[1]", "args[2]"},
		},
		{
			name: "arguments after a word", plugin: "pytorch",
			args: []any{"port", "--worker=x"}, want: map[string]string{}, dropped: []string{"args[0]", "args[1]"},
		},
		{
			name: "missing value", plugin: "pytorch",
			args: []any{"--port=1", "--master"}, want: map[string]string{"port": "1"}, dropped: []string{"args[1]"},
		},
		{
			name: "repeated flag", plugin: "pytorch",
			args: []any{"--port=1", "--port=2"}, want: map[string]string{"port": "2"},
		},
		{
			name: "equal sign in the value", plugin: "ssh",
			args: []any{"--ssh-private-key=a=b"}, want: map[string]string{"ssh-private-key": "a=b"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var recorder source.Recorder
			root := recorder.Root(map[string]any{"args": tt.args})
			got := parseFlags(tt.plugin, root.Get("args")).values
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
			var dropped []string
			for _, e := range recorder.Entries() {
				if e.Outcome == source.Dropped {
					dropped = append(dropped, e.Path)
				}
			}
			if diff := cmp.Diff(tt.dropped, dropped); diff != "" {
				t.Errorf("dropped arguments (-want +got):\n%s", diff)
			}
		})
	}
}
