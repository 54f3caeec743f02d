package migrate

import "testing"

// TestMentionsLabel checks that a text mentions a label only if it contains the complete key. A key
// without a domain must be compared with a value.
func TestMentionsLabel(t *testing.T) {
	tests := map[string]struct {
		text, key string
		want      bool
	}{
		"selector": {
			text: "kubectl get pods -l volcano.sh/job-name=x", key: "volcano.sh/job-name", want: true,
		},
		"list of labels":            {text: "- volcano.sh/job-name", key: "volcano.sh/job-name", want: true},
		"label of another domain":   {text: "my.volcano.sh/job-name=x", key: "volcano.sh/job-name"},
		"longer name":               {text: "volcano.sh/job-names", key: "volcano.sh/job-name"},
		"second term of a selector": {text: "group,tf-job-name=a", key: "tf-job-name", want: true},
		"set of values":             {text: "app=a,tf-job-name in (a, b)", key: "tf-job-name", want: true},
		"word without a value":      {text: "see tf-job-name", key: "tf-job-name"},
		"label after a longer name": {text: "my-tf-job-name=a tf-job-name != b", key: "tf-job-name", want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := mentionsLabel(tt.text, tt.key); got != tt.want {
				t.Errorf("%q mentions %s: %v, want %v", tt.text, tt.key, got, tt.want)
			}
		})
	}
}
