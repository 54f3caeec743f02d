//go:build linux

package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"rollcall.training/internal/text"
)

const (
	// handshakeTimeout limits the time in which a client must authenticate and send its request.
	handshakeTimeout = 10 * time.Second
	// maxHandshakeBytes limits the bytes that a client can send before it is authenticated.
	maxHandshakeBytes = 16 << 10
	// maxHandshakes is the maximum number of connections that are not authenticated.
	maxHandshakes = 128
	// maxSessions is the maximum number of commands that run at the same time. Launchers such as horovodrun
	// use one connection for each process.
	maxSessions = 1024
)

// server runs the commands of the gang's pods.
type server struct {
	tls      *tls.Config
	host     string // the name of this pod
	attempt  string // empty if unknown
	log      *slog.Logger
	children *children
	sessions chan struct{} // one element for each running command

	handshakes handshakes
}

// serve listens until the context is done. All commands terminate before it returns.
func serve(ctx context.Context, log *slog.Logger) error {
	c, err := loadConfig()
	if err != nil {
		return err
	}
	host, err := c.hostName()
	if err != nil {
		return err
	}
	identity, err := loadIdentity(resolvePath(KeyDir))
	if err != nil {
		return err
	}
	s := &server{
		tls: identity.newTLSConfig(), host: host, attempt: os.Getenv(envAttempt), log: log,
		children: newChildren(), sessions: make(chan struct{}, maxSessions),
	}
	go s.children.reapOrphans(ctx)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	log.Info("Serving the commands of the gang", "host", host, "port", c.Port)
	return s.acceptAll(ctx, listener)
}

func (s *server) acceptAll(ctx context.Context, listener net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accepting a connection: %w", err)
		case err != nil:
			// The process has too many files, or the client is gone.
			s.log.Warn("Failed to accept a connection", "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.handshakes.add(conn) // here, because goroutines start in any order
		connections.Go(func() {
			defer func() { _ = conn.Close() }()
			s.handle(ctx, conn)
		})
	}
}

// handle authenticates a connection and runs its command.
func (s *server) handle(ctx context.Context, conn net.Conn) {
	limited := &limitedConn{Conn: conn, remaining: maxHandshakeBytes}
	secure := tls.Server(limited, s.tls)
	handshakeCtx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	err := secure.HandshakeContext(handshakeCtx)
	cancel()
	s.handshakes.remove(conn)
	if err != nil {
		s.log.Debug("Refused a connection", "client", conn.RemoteAddr().String(), "error", err)
		return
	}
	limited.remaining = -1
	p := &peer{conn: secure}
	if err := p.write(frameReady, nil); err != nil {
		return
	}
	kind, payload, err := p.read(handshakeTimeout)
	if err != nil || kind != frameRequest {
		s.log.Warn("A client of the gang sent no request", "client", conn.RemoteAddr().String(), "error", err)
		return
	}
	var r request
	err = json.Unmarshal(payload, &r)
	if err == nil {
		err = s.check(r)
	}
	if err != nil {
		s.log.Warn("Refused a command", "client", conn.RemoteAddr().String(), "error", err)
		_ = p.write(frameRefused, []byte(text.Shorten(err.Error(), maxReasonBytes)))
		return
	}
	if len(r.Command) == 0 {
		_ = p.writeNumber(frameExit, 0)
		return
	}
	select {
	case s.sessions <- struct{}{}:
		defer func() { <-s.sessions }()
		(&session{peer: p, children: s.children}).run(ctx, r.Command)
	default:
		_ = p.write(frameRefused, fmt.Appendf(nil, "%d commands run already", maxSessions))
	}
}

// check returns an error if the request is for another host or another attempt. A client that uses an IP address
// does not know the name.
func (s *server) check(r request) error {
	switch {
	case r.Version != protocolVersion:
		return fmt.Errorf("version %d of the protocol is not supported", r.Version)
	case firstLabel(r.Host) != s.host && net.ParseIP(r.Host) == nil:
		return fmt.Errorf("this is the host %s and not %s", s.host, text.Shorten(r.Host, 253))
	case r.Attempt != "" && s.attempt != "" && r.Attempt != s.attempt:
		return fmt.Errorf("this pod belongs to attempt %s of the gang, and the client to attempt %s",
			s.attempt, text.Shorten(r.Attempt, 20))
	case len(r.Command) > maxCommandBytes:
		return fmt.Errorf("the command has %d bytes, the maximum is %d", len(r.Command), maxCommandBytes)
	}
	return nil
}

// limitedConn fails after a number of bytes, or never if the number is negative.
type limitedConn struct {
	net.Conn
	remaining int
}

func (c *limitedConn) Read(b []byte) (int, error) {
	if c.remaining < 0 {
		return c.Conn.Read(b)
	}
	if c.remaining == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b[:min(len(b), c.remaining)])
	c.remaining -= n
	return n, err
}

// handshakes are the connections that are not authenticated, oldest first.
type handshakes struct {
	mutex sync.Mutex
	conns []net.Conn
}

// add adds a connection and closes the oldest of too many. Clients without the key can therefore not use up
// all connections for as long as they want.
func (h *handshakes) add(conn net.Conn) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.conns = append(h.conns, conn)
	if len(h.conns) > maxHandshakes {
		_ = h.conns[0].Close()
		h.conns = append(h.conns[:0], h.conns[1:]...)
	}
}

func (h *handshakes) remove(conn net.Conn) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i, c := range h.conns {
		if c == conn {
			h.conns = append(h.conns[:i], h.conns[i+1:]...)
			return
		}
	}
}
