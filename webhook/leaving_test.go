package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLeaving: a connection ends with the first answer after a shutdown has begun, and
// not before.
func TestLeaving(t *testing.T) {
	draining := false
	server := httptest.NewServer(leaving(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func() bool { return draining }))
	defer server.Close()
	for _, c := range []struct {
		reason   string
		draining bool
	}{{"connections are kept for the next call", false}, {"the next call goes elsewhere", true}} {
		draining = c.draining
		response, err := server.Client().Post(server.URL, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.Close != c.draining {
			t.Errorf("the connection ends: %v, want %v: %s", response.Close, c.draining, c.reason)
		}
	}
}
