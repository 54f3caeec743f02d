package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
)

// pageBlockPattern matches the blocks of a page: their language and their content.
var pageBlockPattern = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// TestFirstPolicyPage saves the files of the page about the first policy, runs its commands, and compares what they
// print. Each command is followed by its output.
func TestFirstPolicyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/first-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	output, commands := "", 0
	for _, block := range pageBlockPattern.FindAllStringSubmatch(string(page), -1) {
		language, text := block[1], block[2]
		switch language {
		case "yaml":
			name := strings.TrimPrefix(strings.SplitN(text, "\n", 2)[0], "# ")
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh":
			serveGangs(t, "small.yaml", "large.yaml")
			output = ""
			for command := range strings.Lines(text) {
				output += runShown(t, strings.TrimSpace(command))
				commands++
			}
		case "text":
			if diff := cmp.Diff(text, output); diff != "" {
				t.Error("the output differs (-page +command):\n" + diff)
			}
			output = ""
		default:
			t.Errorf("a block in %s is neither a file, a command nor an output", language)
		}
		if language != "sh" && output != "" {
			t.Errorf("the page does not show the output %q", output)
		}
	}
	if commands < 5 {
		t.Errorf("the page has only %d commands", commands)
	}
}

// runShown runs a command of a page and returns what it prints. The exit code 1 of rollcall reports findings.
func runShown(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
	if words[0] != programName {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return ""
	}
	stdout, stderr, err := runCommand(t, "", words[1:]...)
	if err != nil && exitCode(err) != 1 {
		t.Fatalf("%s: %v", command, err)
	}
	return stdout + stderr
}

// serveGangs starts an API server with the admitted Jobs of the manifests that exist, and makes it the cluster of the
// command.
func serveGangs(t *testing.T, manifests ...string) {
	t.Helper()
	var jobs batchv1.JobList
	for _, path := range manifests {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // a later block of the page
		}
		var job batchv1.Job
		if err := yaml.UnmarshalStrict(text, &job); err != nil {
			t.Fatal(err)
		}
		job.Namespace = "team"
		if _, err := newSuiteOptions(nil).Engine.Admit(gang.Workload{Job: &job}); err != nil {
			t.Fatal(err)
		}
		jobs.Items = append(jobs.Items, job)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		list := `{"metadata":{}}`
		if r.URL.Path == "/apis/batch/v1/jobs" {
			text, err := json.Marshal(jobs)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			list = string(text)
		}
		_, _ = w.Write([]byte(list)) // the command reports a broken connection
	}))
	t.Cleanup(server.Close)
	config := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: " + server.URL +
		"}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile("kubeconfig", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "kubeconfig")
}
