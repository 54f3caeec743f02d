package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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

// TestCheckWait checks that --wait ends with the first report without errors of an installation, and otherwise with the
// last complete report and an error.
func TestCheckWait(t *testing.T) {
	absent := check.Report{Results: []check.Result{{Code: "Installation", Status: check.OK}}}
	starting := check.Report{Installed: true, Results: []check.Result{
		{Code: "WebhookReady", Status: check.Error}, {Code: "Injection", Status: check.Error},
		{Code: "Availability", Status: check.Warning}}}
	ready := check.Report{Installed: true, Results: []check.Result{{Code: "Availability", Status: check.Warning}}}
	for name, test := range map[string]struct {
		reports      []check.Report // the last one repeats
		failOn       check.Status
		want         check.Report
		wantErr      error
		wantProgress string
	}{
		"an installation that becomes ready": {
			reports: []check.Report{absent, starting, starting, ready}, failOn: check.Error, want: ready,
			wantProgress: "Waiting for the installation\nWaiting for WebhookReady, Injection\n",
		},
		"an installation with a warning": {
			reports: []check.Report{ready}, failOn: check.Warning, want: ready, wantErr: errFindings,
			wantProgress: "Waiting for Availability\n",
		},
		"no installation": {
			reports: []check.Report{absent}, failOn: check.Error, want: absent, wantErr: errFindings,
			wantProgress: "Waiting for the installation\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				calls := 0
				judge := func(ctx context.Context) (check.Report, error) {
					if calls++; calls > len(test.reports)+1 { // the time ends during this request
						<-ctx.Done()
						return check.Report{Installed: true}, nil
					}
					return test.reports[min(calls, len(test.reports))-1], nil
				}
				var progress strings.Builder
				o := checkOptions{failOn: string(test.failOn), wait: true}
				got, err := o.waitForReport(ctx, judge, &progress)
				if diff := cmp.Diff(test.want, got); diff != "" || !errors.Is(err, test.wantErr) {
					t.Errorf("error %v, want %v; report (-want, +got):\n%s", err, test.wantErr, diff)
				}
				if diff := cmp.Diff(test.wantProgress, progress.String()); diff != "" {
					t.Errorf("progress (-want, +got):\n%s", diff)
				}
			})
		})
	}
}
