package connections

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestAttackPort checks that clients of a port for probes or metrics keep only some connections, and prevent no probe.
func TestAttackPort(t *testing.T) {
	const clients = 4 * maxPortConnections
	for name, text := range map[string]string{
		"a connection without a request": "",
		"an unfinished header":           "GET / HTTP/1.1\r\nX: ",
		"a large header":                 "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 2*MaxHeaderBytes),
		"an unfinished body":             "POST / HTTP/1.1\r\nHost: rollcall\r\nContent-Length: 5000\r\n\r\n{",
		"a response that nobody reads":   "GET /large HTTP/1.1\r\nHost: rollcall\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			server, err := NewPort("probes", "127.0.0.1:0", newTestProbes(), nil)
			if err != nil {
				t.Fatal(err)
			}
			go server.Start(t.Context()) //nolint:errcheck // it serves until the end of the test
			address := server.Listener.Addr().String()
			for i := range clients {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, byte(1+i%5))}}
				conn, err := dialer.DialContext(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, text) // the server may have closed the connection
			}
			if body := get(t, "http://"+address+"/"); body != "ok" {
				t.Errorf("the response is %q, want ok", body)
			}
			bounded := server.Listener.(limitedListener).clients
			bounded.mu.Lock()
			defer bounded.mu.Unlock()
			if open := len(bounded.open); open > maxPortConnections {
				t.Errorf("%d of %d connections are open, want at most %d", open, clients, maxPortConnections)
			}
		})
	}
}

// newTestProbes returns a handler with a small and a large response.
func newTestProbes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", maxBodyBytesOfPeer/16))
	})
	return mux
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: responseTimeout}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
