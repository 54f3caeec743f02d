package connections

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener is a listener whose connections exist only in memory, so that a test needs no real time.
type pipeListener struct{ connections chan net.Conn }

// servePipes serves a handler until the test ends.
func servePipes(t *testing.T, h http.Handler) pipeListener {
	t.Helper()
	l := pipeListener{connections: make(chan net.Conn)}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go server.Serve(l) //nolint:errcheck // it returns ErrServerClosed
	t.Cleanup(func() { server.Close() })
	return l
}

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.connections; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error { close(l.connections); return nil }

func (pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// dial connects a client, which sends text. Nobody reads the response.
func (l pipeListener) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	l.connections <- server
	t.Cleanup(func() { _ = client.Close() })
	if _, err := io.WriteString(client, text); err != nil {
		t.Fatal(err)
	}
	return client
}

// TestUnfinishedRequest checks that a client that does not finish its request soon gets a response, and occupies no
// slot until then.
func TestUnfinishedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(1)
		l := servePipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request := limiter.Begin(w, r)
			defer request.End()
			if body, err := request.ReadBody(10_000); string(body) != "beginning" || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the body is %q, %v", body, err)
			}
		}))
		start := time.Now() //nolint:forbidigo // the time of the bubble
		client := l.dial(t, "POST / HTTP/1.1\r\nHost: rollcall\r\nContent-Length: 5000\r\n\r\nbeginning")
		synctest.Wait()
		if limiter.slots.free != 1 {
			t.Error("the request has a slot")
		}
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if waited := time.Since(start); waited > bodyTimeout {
			t.Errorf("the response took %s, want at most %s", waited, bodyTimeout)
		}
	})
}

// bodyRecorder records the body of the request while its response is sent.
type bodyRecorder struct {
	http.ResponseWriter
	request *http.Request
	body    io.ReadCloser
}

func (r *bodyRecorder) Write(text []byte) (int, error) {
	r.body = r.request.Body
	return r.ResponseWriter.Write(text)
}

// TestBodyOfHandledRequest checks that a client that does not read its response keeps only the response in memory.
func TestBodyOfHandledRequest(t *testing.T) {
	h := NewLimiter(1).limitReads(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "response") //nolint:errcheck // it is in memory
	}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("body"))
	w := &bodyRecorder{ResponseWriter: httptest.NewRecorder(), request: r}
	h.ServeHTTP(w, r)
	if w.body != http.NoBody {
		t.Errorf("while the response is sent, the request still has the body %v", w.body)
	}
}

// TestUnfinishedRequestToUnknownPath checks that a path without an endpoint keeps no connection open.
func TestUnfinishedRequestToUnknownPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipeListener{connections: make(chan net.Conn)}
		server := NewServer(http.NotFoundHandler())
		go server.Serve(Limit(l)) //nolint:errcheck // it returns ErrServerClosed
		client := l.dial(t, "POST /unknown HTTP/1.1\r\nHost: rollcall\r\nContent-Length: 100\r\n\r\n")
		closed := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, client)
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(time.Minute):
			t.Error("the connection is still open after a minute")
		}
		_ = server.Close()
	})
}

// TestUnreadResponse checks that a client that does not read its response keeps no slot, and its connection only
// until the deadline.
func TestUnreadResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(1)
		l := servePipes(t, limiter.limitReads(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("x", 100_000)) //nolint:errcheck // nobody reads the response
		})))
		l.dial(t, "GET / HTTP/1.1\r\nHost: rollcall\r\n\r\n")
		synctest.Wait()
		if limiter.slots.free != 1 {
			t.Error("the client has a slot")
		}
		if bytes := limiter.clients.used.bytes; bytes != 100_000-smallBytes {
			t.Errorf("clients occupy %d bytes, want those of the response", bytes)
		}
		time.Sleep(time.Minute)
		if limiter.clients.used != (usage{}) {
			t.Errorf("after a minute, clients still occupy %+v", limiter.clients.used)
		}
	})
}

// TestResponseBeyondBound checks that a client gets no empty response if the server cannot keep its response.
func TestResponseBeyondBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(1)
		limiter.clients.peer.bytes = 0
		l := servePipes(t, limiter.limitReads(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("x", 100_000)) //nolint:errcheck // the response is kept
		})))
		client := l.dial(t, "GET / HTTP/1.1\r\nHost: rollcall\r\n\r\n")
		if text, err := io.ReadAll(client); err != nil || len(text) > 0 {
			t.Errorf("the client received %q, %v, want a closed connection", text, err)
		}
	})
}
