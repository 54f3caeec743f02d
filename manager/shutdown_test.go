package manager

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestExitWithoutCaches terminates processes that may list no object, so that their caches are never filled.
func TestExitWithoutCaches(t *testing.T) {
	kubeconfig := startAPIServer(t, discoveryDocuments)
	for name, args := range map[string][]string{
		"controller":                        {"controller"},
		"controller with a leader election": {"controller", "--leader-elect"},
		"controller with a policy":          {"controller", "--policy-configmap=policy"},
		"webhook with a policy":             {"webhook", "--shutdown-delay=0s", "--policy-configmap=policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startManagerProcess(t, kubeconfig, args)
			p.waitForOutput(t, "failed to list")
			p.terminate(t)
			p.waitForExit(t)
			if !p.cmd.ProcessState.Success() {
				t.Errorf("%v; the process wrote\n%s", p.cmd.ProcessState, p.stderr)
			}
		})
	}
}

// waitForOutput waits until the process has written a text.
func (p *managerProcess) waitForOutput(t *testing.T, text string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if strings.Contains(p.stderr.String(), text) {
			return
		}
	}
	t.Fatalf("the process did not write %q; it wrote\n%s", text, p.stderr)
}

// TestSecureMetricsPort sends a request without TLS to the port of the secure metrics. The server must answer
// at once that it expects TLS.
func TestSecureMetricsPort(t *testing.T) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(findFreePort(t)))
	p := startManagerProcess(t, startBrokenAPIServer(t),
		[]string{"webhook", "--shutdown-delay=0s", "--metrics-secure", "--metrics-bind-address=" + address})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a server that hangs must not block the test
	defer cancel()
	resp := getUntilListening(ctx, t, "http://"+address+"/metrics")
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "HTTPS server") {
		t.Errorf("code %d with %q, %v; want 400 with a message about HTTPS", resp.StatusCode, body, err)
	}
	p.terminate(t)
	p.waitForExit(t)
}

// getUntilListening returns the first response of a process that starts.
func getUntilListening(ctx context.Context, t *testing.T, url string) *http.Response {
	t.Helper()
	for ; ; time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			return resp
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
