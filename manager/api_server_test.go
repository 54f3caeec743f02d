package manager

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// startStatusServer starts an API server that answers each request with a status, and configures the process to use it.
func startStatusServer(t *testing.T, status int) *atomic.Int64 {
	t.Helper()
	var current atomic.Int64
	current.Store(int64(status))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(current.Load()))
	}))
	t.Cleanup(server.Close)
	path := t.TempDir() + "/kubeconfig"
	config := clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: server.URL}},
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	return &current
}

// TestWaitForAPIServer checks that a process without an API server is alive and not ready, and starts when the API
// server answers.
func TestWaitForAPIServer(t *testing.T) {
	status := startStatusServer(t, http.StatusServiceUnavailable)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(findFreePort(t)))
	o := commonOptions{probeAddress: address}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- o.waitForAPIServer(ctx) }()
	for getStatus(ctx, t, "http://"+address+"/healthz") != http.StatusOK {
		select {
		case err := <-result:
			t.Fatalf("the process does not wait: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if got := getStatus(ctx, t, "http://"+address+"/readyz"); got != http.StatusNotFound {
		t.Errorf("the readiness probe returns %d, want %d", got, http.StatusNotFound)
	}
	status.Store(http.StatusOK)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	stop, err := serveLiveness(ctx, address) // as the probes of the manager
	if err != nil {
		t.Fatalf("the port is in use: %v", err)
	}
	stop()
}

// getStatus returns the status of a response; 0 without a response.
func getStatus(ctx context.Context, t *testing.T, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close() // was not read
	return response.StatusCode
}

func TestDoNotWaitForAPIServer(t *testing.T) {
	o := commonOptions{probeAddress: "0"}
	status := startStatusServer(t, http.StatusForbidden)
	if err := o.waitForAPIServer(t.Context()); err != nil {
		t.Errorf("an API server that refuses the request: %v", err)
	}
	status.Store(http.StatusServiceUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.waitForAPIServer(ctx); err == nil {
		t.Error("the process starts although it must stop")
	}
}

func TestLeaseIdentity(t *testing.T) {
	o := controllerOptions{leaderElect: true, leaseName: "rollcall"}
	for pod, want := range map[string]string{"rollcall-controller-a": "rollcall-controller-a", "": ""} {
		t.Setenv("POD_NAME", pod)
		lock, err := o.newLeaseLock(&rest.Config{})
		if err != nil {
			t.Fatal(err)
		}
		identity := ""
		if lock != nil {
			identity = lock.Identity()
		}
		if identity != want {
			t.Errorf("pod %q: the identity is %q, want %q", pod, identity, want)
		}
	}
}
