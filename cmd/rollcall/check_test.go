package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"rollcall.training/internal/check"
)

// writeServerKubeconfig returns the path of a kubeconfig for an API server.
func writeServerKubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{apiVersion: v1, kind: Config, current-context: test,
  clusters: [{name: test, cluster: {server: "` + url + `"}}],
  contexts: [{name: test, context: {cluster: test}}]}`
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newRestrictedServer returns an API server that reports only its version and denies all other requests.
func newRestrictedServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"gitVersion": "v1.37.2"}`)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestCheckOutput checks that the machine-readable formats contain the same report, and that the exit code
// depends on --fail-on.
func TestCheckOutput(t *testing.T) {
	kubeconfig := writeServerKubeconfig(t, newRestrictedServer(t).URL)
	tests := map[string]struct {
		format string
		failOn string
		want   error
	}{
		"JSON without errors":       {format: outputJSON, failOn: string(check.Error)},
		"YAML without errors":       {format: outputYAML, failOn: string(check.Error)},
		"JSON with unknown results": {format: outputJSON, failOn: string(check.Unknown), want: errFindings},
		"YAML that never fails":     {format: outputYAML, failOn: failOnNever},
		"YAML with unknown results": {format: outputYAML, failOn: string(check.Unknown), want: errFindings},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := runCommand(t, "", "check", "--pre", "--kubeconfig", kubeconfig,
				"--output", test.format, "--fail-on", test.failOn)
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v; standard error: %s", err, test.want, stderr)
			}
			unmarshal := func(data []byte, into any) error { return yaml.UnmarshalStrict(data, into) }
			if test.format == outputJSON {
				unmarshal = json.Unmarshal
			}
			var report check.Report
			if err := unmarshal([]byte(stdout), &report); err != nil {
				t.Fatalf("reading the report: %v:\n%s", err, stdout)
			}
			if report.Installed || report.Errors != 0 || report.Unknown == 0 || len(report.Results) <= report.Unknown {
				t.Errorf("the report is %+v, want a version that is ok and unknown results", report)
			}
		})
	}
}

func TestCheckWithoutAPIServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, _, err := runCommand(t, "", "check", "--kubeconfig", writeServerKubeconfig(t, server.URL))
	if err == nil || errors.Is(err, errFindings) {
		t.Errorf("error %v, want one that says that the API server does not answer", err)
	}
}
