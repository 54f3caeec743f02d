package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// newIdentity returns the identity of a gang with a key.
func newIdentity(t *testing.T, key []byte) *identity {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, privateKeyFile), key, 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := loadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// dial connects to the server of a pod without any authentication.
func (p *pod) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// authenticate connects to the server of a pod with the identity of its gang.
func (p *pod) authenticate(t *testing.T, i *identity) *peer {
	t.Helper()
	client := &peer{conn: tls.Client(p.dial(t), i.newTLSConfig())}
	if err := client.expectReady(); err != nil {
		t.Fatal(err)
	}
	return client
}

// newForgedCertificate returns a certificate with the public key of the gang for a client that does not have the
// private key.
func newForgedCertificate(t *testing.T, gangKey *ecdsa.PublicKey) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, gangKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestAttackAgentWithoutKey checks that only a client with the key of the gang runs a command.
func TestAttackAgentWithoutKey(t *testing.T) {
	key := newKeyPEM(t)
	p, marker := newPod(t, key), filepath.Join(t.TempDir(), "marker")
	p.serve(t)
	own, other := newIdentity(t, key), newIdentity(t, newKeyPEM(t))
	r := request{Version: protocolVersion, Host: host, Command: []byte("touch " + marker)}
	send := func(conn net.Conn) error {
		client := &peer{conn: conn}
		if err := client.writeRequest(r); err != nil { // an attacker does not wait until it is authenticated
			return err
		}
		if err := client.expectReady(); err != nil {
			return err
		}
		return client.expectStarted(handshakeTimeout)
	}
	withTLS := func(change func(*tls.Config)) func(net.Conn) error {
		return func(conn net.Conn) error {
			config := other.newTLSConfig()
			config.VerifyConnection = nil // an attacker accepts every server
			change(config)
			return send(tls.Client(conn, config))
		}
	}
	for name, attack := range map[string]func(net.Conn) error{
		"a client without TLS":           send,
		"a client without a certificate": withTLS(func(c *tls.Config) { c.Certificates = nil }),
		"the key of another gang":        withTLS(func(*tls.Config) {}),
		"the public key of the gang without its private key": withTLS(func(c *tls.Config) {
			c.Certificates = []tls.Certificate{newForgedCertificate(t, own.key)}
		}),
		"a chain that starts with another key": withTLS(func(c *tls.Config) {
			c.Certificates[0].Certificate = append(c.Certificates[0].Certificate, own.certificate.Certificate[0])
		}),
		"an old version of TLS": withTLS(func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			c.Certificates = []tls.Certificate{own.certificate}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if err := attack(p.dial(t)); err == nil {
				t.Error("the server accepted the client")
			}
		})
	}
	if err := withTLS(func(c *tls.Config) { c.Certificates = []tls.Certificate{own.certificate} })(p.dial(t)); err != nil {
		t.Errorf("the server refused the key of the gang, so the test proves nothing: %v", err)
	}
	waitFor(t, "the command of the gang runs", func() bool { _, err := os.Stat(marker); return err == nil })
}

// TestAttackAgentForeignServer checks that a client sends its command only to a server with the key of the gang.
func TestAttackAgentForeignServer(t *testing.T) {
	server := newPod(t, newKeyPEM(t))
	server.serve(t)
	i := newIdentity(t, newKeyPEM(t))
	c := &client{config: config{Port: server.port}, tls: i.newTLSConfig()}
	_, err := c.connect(t.Context(), host, []byte("true"))
	if err == nil || !strings.Contains(err.Error(), errForeignKey.Error()) {
		t.Errorf("connecting to a server of another gang returned %v, want %v", err, errForeignKey)
	}
}

// TestAttackAgentReplay sends the bytes of a successful client again.
func TestAttackAgentReplay(t *testing.T) {
	key := newKeyPEM(t)
	p, output := newPod(t, key), filepath.Join(t.TempDir(), "output")
	p.serve(t)
	recorder := &recordingConn{Conn: p.dial(t)}
	client := &peer{conn: tls.Client(recorder, newIdentity(t, key).newTLSConfig())}
	err := client.writeRequest(request{Version: protocolVersion, Host: host, Command: []byte("echo run >>" + output)})
	if err == nil {
		_, err = client.receive(io.Discard, io.Discard, newWindow(0))
	}
	if err != nil {
		t.Fatal(err)
	}
	replay := p.dial(t)
	if _, err := replay.Write(recorder.sent.Bytes()); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, replay) // until the server closes the connection
	if text, err := os.ReadFile(output); string(text) != "run\n" {
		t.Errorf("the command wrote %q, %v, want one line", text, err)
	}
}

// recordingConn records what is sent.
type recordingConn struct {
	net.Conn
	sent bytes.Buffer
}

func (c *recordingConn) Write(b []byte) (int, error) {
	c.sent.Write(b)
	return c.Conn.Write(b)
}

// TestAttackAgentStalePod checks that a command reaches neither another host, to which a stale DNS record leads, nor
// another attempt of the gang.
func TestAttackAgentStalePod(t *testing.T) {
	key := newKeyPEM(t)
	p := newPod(t, key)
	p.env = []string{envAttempt + "=2"}
	p.serve(t)
	i := newIdentity(t, key)
	for _, c := range []struct {
		name, host, attempt, want string
	}{
		{name: "the same attempt", host: "train-worker-0.train.ns.svc", attempt: "2"},
		{name: "an unknown attempt", host: "train-worker-0", attempt: ""},
		{name: "an earlier attempt", host: "train-worker-0", attempt: "1", want: "this pod belongs to attempt 2"},
		{name: "another host", host: "train-worker-1.train.ns.svc", attempt: "2", want: "this is the host train-worker-0"},
		{name: "a long name", host: strings.Repeat("x", 100<<10), attempt: "2", want: "this is the host train-worker-0"},
	} {
		client := p.authenticate(t, i)
		r := request{Version: protocolVersion, Host: c.host, Attempt: c.attempt, Command: []byte("true")}
		err := client.writeRequest(r)
		if err == nil {
			err = client.expectStarted(handshakeTimeout)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the server answered %v, want %q", c.name, err, c.want)
		}
	}
}

// TestAttackAgentOversizedFrame checks that a length is refused before memory is allocated for it.
func TestAttackAgentOversizedFrame(t *testing.T) {
	key := newKeyPEM(t)
	p := newPod(t, key)
	p.serve(t)
	i := newIdentity(t, key)
	for _, kind := range []frameType{frameRequest, frameStdin, frameSignal, framePing, 'z'} {
		client := p.authenticate(t, i)
		header := binary.BigEndian.AppendUint32([]byte{byte(kind)}, 1<<32-1)
		if _, err := client.conn.Write(header); err != nil {
			t.Fatal(err)
		}
		if _, err := client.conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("the server answers a frame of type %q with 4 GiB", byte(kind))
		}
	}
	command := bytes.Repeat([]byte("x"), maxCommandBytes+1)
	client := p.authenticate(t, i)
	err := client.writeRequest(request{Version: protocolVersion, Host: host, Command: command})
	if err == nil {
		err = client.expectStarted(handshakeTimeout)
	}
	if err == nil || !strings.Contains(err.Error(), "the maximum is") {
		t.Errorf("a command of %d bytes returned %v", len(command), err)
	}
	p.checkMemory(t)
}

// TestAttackAgentLargeHandshake checks that a client cannot send more than the limit before it is authenticated.
func TestAttackAgentLargeHandshake(t *testing.T) {
	p := newPod(t, newKeyPEM(t))
	p.serve(t)
	conn := p.dial(t)
	// A ClientHello whose length is the maximum of crypto/tls, in records of 16 KiB.
	record := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 16<<10-4)...)
	sent := 0
	for range 64 {
		n, err := conn.Write(record)
		if sent += n; err != nil {
			break
		}
		record = append([]byte{22, 3, 1, 0x40, 0}, make([]byte, 16<<10)...)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	p.checkMemory(t)
}

// TestAttackAgentFlood opens thousands of connections that send nothing, or almost all that they may send. The gang
// must still reach the server, whose memory and files stay limited.
func TestAttackAgentFlood(t *testing.T) {
	p := newPod(t, newKeyPEM(t))
	p.serve(t)
	// A ClientHello of 16 KiB without its last byte.
	hello := append([]byte{22, 3, 1, 0x3f, 0xf0, 1, 0, 0x3f, 0xec}, make([]byte, 16<<10-21)...)
	for i := range 2000 {
		conn := p.dial(t)
		if _, err := conn.Write(hello[:i%2*len(hello)]); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.run(t, nil, host, "echo reached"); got.stdout != "reached\n" {
		t.Errorf("a client of the gang got %+v", got)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.server.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > maxHandshakes+50 {
		t.Errorf("the server has %d open files, want at most %d", len(files), maxHandshakes+50)
	}
	p.checkMemory(t)
}

// TestAttackAgentSlowClient checks that a client that never completes its handshake or its request is disconnected.
func TestAttackAgentSlowClient(t *testing.T) {
	key := newKeyPEM(t)
	p := newPod(t, key)
	p.serve(t)
	silent := p.dial(t)
	if _, err := silent.Write([]byte{22, 3}); err != nil { // the start of a ClientHello
		t.Fatal(err)
	}
	withoutRequest := p.authenticate(t, newIdentity(t, key))
	if _, err := withoutRequest.conn.Write([]byte{byte(frameRequest)}); err != nil {
		t.Fatal(err)
	}
	// The reads return when the server closes the connections.
	if _, err := io.Copy(io.Discard, silent); err != nil {
		t.Fatal(err)
	}
	if _, err := withoutRequest.conn.Read(make([]byte, 1)); err == nil {
		t.Error("the server answered a client without a request")
	}
}

// TestAttackAgentInput checks that a client of the gang cannot fill the memory with input that the command does not
// read, and that its command terminates.
func TestAttackAgentInput(t *testing.T) {
	key := newKeyPEM(t)
	p, pidFile := newPod(t, key), filepath.Join(t.TempDir(), "pid")
	p.serve(t)
	client := p.authenticate(t, newIdentity(t, key))
	r := request{Version: protocolVersion, Host: host, Command: []byte("echo $$ >" + pidFile + "; sleep 600")}
	if err := client.writeRequest(r); err != nil {
		t.Fatal(err)
	}
	if err := client.expectStarted(handshakeTimeout); err != nil {
		t.Fatal(err)
	}
	id := waitForPID(t, pidFile)
	input := make([]byte, maxDataBytes)
	for range 1000 { // 32 MiB
		if client.write(frameStdin, input) != nil {
			break
		}
	}
	waitFor(t, "the command terminates", func() bool { return !isRunning(id) })
	p.checkMemory(t)
}

// checkMemory checks the peak of the memory that the server has used. A server at rest uses 10 MiB.
func (p *pod) checkMemory(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.server.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(peak)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the server used at most %d KiB", kib)
	if kib > 64<<10 {
		t.Errorf("the server used %d KiB, want at most 64 MiB", kib)
	}
}
