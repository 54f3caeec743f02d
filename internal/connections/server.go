package connections

import (
	"context"
	"crypto/tls"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

const (
	// MaxHeaderBytes is the maximum length of the header of a request. Go adds 4 KiB to it.
	MaxHeaderBytes = 16 << 10
	// readHeaderTimeout bounds the handshake and the header. It is the value of controller-runtime.
	readHeaderTimeout = 32 * time.Second
	// idleTimeout is longer than the 90 s of the client of an API server. Otherwise both close an idle connection at the
	// same time, and a request that the client sends meanwhile fails.
	idleTimeout = 120 * time.Second
)

// Limit returns a listener with the bounds of all connections.
func Limit(l net.Listener) net.Listener { return limitedListener{Listener: l, clients: newClients()} }

// NewServer returns a server for the connections of [Limit].
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ConnContext:       addClient,
		MaxHeaderBytes:    MaxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		// A [Request] sets shorter deadlines. These apply to paths without one.
		ReadTimeout:  readHeaderTimeout,
		WriteTimeout: readHeaderTimeout,
		IdleTimeout:  idleTimeout,
		ErrorLog:     stdlog.New(&errorLog{sometimes: rate.Sometimes{Interval: time.Second}}, "", 0),
	}
}

// addClient adds the client of a connection to the context of its requests.
func addClient(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	return context.WithValue(ctx, clientKey{}, conn)
}

// errorLog passes on the errors of connections to the log, at most one per second, because anybody can cause them.
type errorLog struct{ sometimes rate.Sometimes }

// Write implements [io.Writer].
func (l *errorLog) Write(line []byte) (int, error) {
	text := string(line)
	l.sometimes.Do(func() { stdlog.Print(text) })
	return len(line), nil
}
