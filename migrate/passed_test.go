package migrate

import "testing"

// TestNames: a text names a label where it stands by itself; a word that could be any
// other's only where something is compared with it.
func TestNames(t *testing.T) {
	for text, c := range map[string]struct {
		reason, key string
		want        bool
	}{
		"kubectl get pods -l volcano.sh/job-name=x": {"a selector", "volcano.sh/job-name", true},
		"- volcano.sh/job-name":                     {"a list of labels", "volcano.sh/job-name", true},
		"my.volcano.sh/job-name=x":                  {"the label of another domain", "volcano.sh/job-name", false},
		"volcano.sh/job-names":                      {"a longer name", "volcano.sh/job-name", false},
		"group,tf-job-name=a":                       {"the second of a selector", "tf-job-name", true},
		"app=a,tf-job-name in (a, b)":               {"a set", "tf-job-name", true},
		"see tf-job-name":                           {"a word that may mean anything", "tf-job-name", false},
		"my-tf-job-name=a tf-job-name != b":         {"the second of two", "tf-job-name", true},
	} {
		if got := names(text, c.key); got != c.want {
			t.Errorf("%q names %s: %v, want %v: %s", text, c.key, got, c.want, c.reason)
		}
	}
}
