package suite_test

import (
	"strings"
	"testing"

	"rollcall.training/internal/policy/suite"
)

// TestReadSuiteDocuments checks that a file with test cases has one document, so that no case is ignored.
func TestReadSuiteDocuments(t *testing.T) {
	const text = `apiVersion: policy.rollcall.training/v1alpha1
kind: GangPolicyTest
policy: policy.yaml
cases:
- name: a gang is allowed
  files: [gang.yaml]
  want: {admitted: true}
`
	for name, c := range map[string]struct {
		text    string
		wantErr string
	}{
		"one document":                        {text: text},
		"an empty document after it":          {text: text + "---\n# end\n"},
		"a second document without a kind":    {text: text + "---\ncases: []\n", wantErr: "must contain one document"},
		"a second document with another kind": {text: text + "---\nkind: List\n", wantErr: "must contain one document"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := suite.Read("suite.yaml", []byte(c.text))
			if (err != nil) != (c.wantErr != "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("got error %v, want %q", err, c.wantErr)
			}
		})
	}
}
