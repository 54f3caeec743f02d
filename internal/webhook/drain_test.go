package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCloseWhileDraining checks that a connection ends with the first response after a shutdown has
// started, and not earlier.
func TestCloseWhileDraining(t *testing.T) {
	draining := false
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(closeWhileDraining(ok, func() bool { return draining }))
	defer server.Close()
	for _, draining = range []bool{false, true} {
		response, err := server.Client().Post(server.URL, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.Close != draining {
			t.Errorf("with draining = %t, the server closes the connection: %t", draining, response.Close)
		}
	}
}
