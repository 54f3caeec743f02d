package manifest_test

import (
	"strings"
	"testing"

	"rollcall.training/manifest"
)

func TestMergeKeys(t *testing.T) {
	for name, c := range map[string]struct {
		reason, text, want, err string
	}{
		"overridden": {"a mapping may say otherwise than what it merges in, as people write replicas of one kind",
			"a: &a {replicas: 1, image: x}\nb:\n  <<: *a\n  replicas: 3\n", `"b":{"image":"x","replicas":3}`, ""},
		"plain": {"", "a: &a {image: x}\nb:\n  <<: *a\n  replicas: 3\n", `"b":{"image":"x","replicas":3}`, ""},
		"twice": {"a key that stands twice is a mistake beside a merge, too",
			"a: &a {replicas: 1}\nb:\n  <<: *a\n  replicas: 3\nc: 1\nc: 2\n", "", `key "c" already set`},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("x.yaml", strings.NewReader(c.text+"kind: Any\n"))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q: %s", err, c.err, c.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(docs[0].Objects()[0].Text); !strings.Contains(got, c.want) {
				t.Errorf("%s is not in %s: %s", c.want, got, c.reason)
			}
		})
	}
}
