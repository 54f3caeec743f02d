//go:build linux

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// exitUnreachable is the exit code of ssh for a host that it cannot reach.
	exitUnreachable = 255
	// connectAttempts is how often the client tries to connect, and connectInterval the time between attempts.
	connectAttempts = 10
	connectInterval = time.Second
	dialTimeout     = 10 * time.Second
)

// forwardedSignals are the signals that a client forwards to the command.
var forwardedSignals = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

func forwards(number syscall.Signal) bool {
	return slices.Contains(forwardedSignals, os.Signal(number))
}

// errRefused means that the server does not run the command.
var errRefused = errors.New("the host refused the command")

// errNoAnswer means that the server may run the command, although it has not answered.
var errNoAnswer = errors.New("the host did not answer the request")

// client connects to the hosts of the gang.
type client struct {
	config  config
	tls     *tls.Config
	attempt string
}

func newClient() (*client, error) {
	c, err := loadConfig()
	if err != nil {
		return nil, err
	}
	identity, err := loadIdentity(resolvePath(KeyDir))
	if err != nil {
		return nil, err
	}
	return &client{config: c, tls: identity.newTLSConfig(), attempt: os.Getenv(envAttempt)}, nil
}

// connect sends a request to a host and returns the connection, on which the command runs. Without a command,
// the connection is useless: the host responds.
func (c *client) connect(ctx context.Context, host string, command []byte) (*peer, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	address := net.JoinHostPort(host, strconv.Itoa(c.config.Port))
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, c.tls)
	p := &peer{conn: secure}
	if err = secure.HandshakeContext(ctx); err == nil {
		err = p.expectReady()
	}
	if err == nil {
		r := request{Version: protocolVersion, Host: host, Attempt: c.attempt, Command: command}
		err = p.writeRequest(r)
	}
	if err == nil {
		timeout := handshakeTimeout
		if len(command) > 0 {
			timeout = peerTimeout // the node may need long to start the command
		}
		err = p.expectStarted(timeout)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return p, nil
}

// expectReady waits until the server has authenticated this client. With TLS 1.3, the handshake of a client ends
// before that of the server, which may still close the connection. Without this wait, the client would not know
// whether the server has received its request.
func (p *peer) expectReady() error {
	kind, _, err := p.read(handshakeTimeout)
	if err != nil {
		return fmt.Errorf("waiting for the host to authenticate this client: %w", err)
	}
	if kind != frameReady {
		return fmt.Errorf("unexpected frame %q", byte(kind))
	}
	return nil
}

// expectStarted reads the answer to a request.
func (p *peer) expectStarted(timeout time.Duration) error {
	kind, payload, err := p.read(timeout)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	case kind == frameRefused:
		return fmt.Errorf("%w: %s", errRefused, payload)
	case kind != frameStarted && kind != frameExit:
		return fmt.Errorf("unexpected answer %q", byte(kind))
	}
	return nil
}

// responds reports whether a host responds with the key of the gang.
func (c *client) responds(ctx context.Context, host string) error {
	p, err := c.connect(ctx, host, nil)
	if err == nil {
		_ = p.conn.Close()
	}
	return err
}

// execute runs a command on a host with the standard streams of this process, and returns its exit code.
func (c *client) execute(ctx context.Context, e execution) int {
	// The command may run before connectWithRetries returns.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwardedSignals...)
	connectCtx, stop := signal.NotifyContext(ctx, forwardedSignals...)
	p, err := c.connectWithRetries(connectCtx, e)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "rollcall: connecting to host %s: %v\n", e.host, err)
		return exitUnreachable
	}
	defer func() { _ = p.conn.Close() }()
	if err := recordReached(e.host); err != nil {
		fmt.Fprintf(os.Stderr, "rollcall: %v\n", err)
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for received := range signals {
			number, _ := received.(syscall.Signal)
			_ = p.writeNumber(frameSignal, int(number))
		}
	}()
	go p.keepAlive(done)
	window := newWindow(stdinWindow)
	if e.ignoresInput {
		_ = p.write(frameStdin, nil)
	} else {
		go p.sendInput(os.Stdin, window)
	}
	code, err := p.receive(os.Stdout, os.Stderr, window)
	if err != nil {
		fmt.Fprintf(os.Stderr, "rollcall: the connection to host %s ended: %v\n", e.host, err)
		return exitUnreachable
	}
	return code
}

// connectWithRetries tries again until the server has received the request, because a command must not run twice.
func (c *client) connectWithRetries(ctx context.Context, e execution) (*peer, error) {
	for attempt := 1; ; attempt++ {
		p, err := c.connect(ctx, e.host, e.command)
		if err == nil || errors.Is(err, errNoAnswer) || attempt == connectAttempts || ctx.Err() != nil {
			return p, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(connectInterval):
		}
	}
}

// receive writes the output of the command until it exits, and returns its exit code.
func (p *peer) receive(stdout, stderr io.Writer, input *window) (int, error) {
	for {
		kind, payload, err := p.read(peerTimeout)
		if err != nil {
			return 0, err
		}
		switch kind {
		case frameStdout:
			_, err = stdout.Write(payload)
		case frameStderr:
			_, err = stderr.Write(payload)
		case frameConsumed:
			if n, ok := parseNumber(payload); ok {
				input.grow(n)
			}
		case frameExit:
			if code, ok := parseNumber(payload); ok {
				return code, nil
			}
			return 0, errors.New("the exit code is not a number")
		}
		if err != nil {
			return 0, fmt.Errorf("writing the output: %w", err) // the command terminates with the connection
		}
	}
}

// sendInput sends a stream to the command, and never more than the window permits.
func (p *peer) sendInput(from io.Reader, w *window) {
	buffer := make([]byte, maxDataBytes)
	for {
		n, err := from.Read(buffer[:w.wait(len(buffer))])
		if n > 0 && p.write(frameStdin, buffer[:n]) != nil {
			return
		}
		w.shrink(n)
		if err != nil {
			_ = p.write(frameStdin, nil)
			return
		}
	}
}

// window is the number of bytes that a client may send.
type window struct {
	mutex   sync.Mutex
	changed *sync.Cond
	bytes   int
}

func newWindow(size int) *window {
	w := &window{bytes: size}
	w.changed = sync.NewCond(&w.mutex)
	return w
}

// wait waits until the window is open, and returns how much of a length it permits.
func (w *window) wait(length int) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for w.bytes <= 0 {
		w.changed.Wait()
	}
	return min(length, w.bytes)
}

func (w *window) shrink(n int) { w.grow(-n) }

func (w *window) grow(n int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.bytes += n
	w.changed.Broadcast()
}

// recordReached records a host for the report of the launcher. A worker that starts processes on other workers
// has no report.
func recordReached(host string) error {
	path := filepath.Join(resolvePath(ReportDir), reachedName)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("recording a reached host: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteString(host + "\n"); err != nil {
		return fmt.Errorf("recording a reached host: %w", err)
	}
	return nil
}
