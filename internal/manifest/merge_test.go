package manifest_test

import (
	"strings"
	"testing"

	"rollcall.training/internal/manifest"
)

func TestMergeKeys(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		want      string // part of the JSON
		wantError string // part of the error
	}{
		"a mapping overrides a key that it merges": {
			text: "a: &a {replicas: 1, image: x}\nb:\n  <<: *a\n  replicas: 3\n",
			want: `"b":{"image":"x","replicas":3}`,
		},
		"a mapping adds a key to those that it merges": {
			text: "a: &a {image: x}\nb:\n  <<: *a\n  replicas: 3\n",
			want: `"b":{"image":"x","replicas":3}`,
		},
		"a duplicate key is an error in a document with merge keys": {
			text:      "a: &a {replicas: 1}\nb:\n  <<: *a\n  replicas: 3\nc: 1\nc: 2\n",
			wantError: `key "c" already set`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("x.yaml", strings.NewReader(c.text+"kind: Any\n"))
			if c.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantError) {
					t.Fatalf("error %v, want an error that contains %q", err, c.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(docs[0].Objects()[0].JSON); !strings.Contains(got, c.want) {
				t.Errorf("JSON %s does not contain %s", got, c.want)
			}
		})
	}
}
