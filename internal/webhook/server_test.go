package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/connections"
)

// newAuthority returns a certificate authority, and a certificate of it.
func newAuthority(t *testing.T) (authorityPEM []byte, certificate tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotAfter:    time.Now().Add(time.Hour), //nolint:forbidigo // the validity of a certificate
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// startTestServer starts a server with all endpoints on a loopback address.
func startTestServer(t *testing.T, o ServerOptions) (address string) {
	t.Helper()
	_, certificate := newAuthority(t)
	o.ConfigureTLS = func(config *tls.Config) {
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
	server := NewServer(o)
	Register(server, Options{
		Engine:   injectors.NewEngine(injectors.Builtin(), gang.Config{}),
		Draining: func() bool { return false },
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config, err := server.newTLSConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go server.serve(t.Context(), listener, config) //nolint:errcheck // it serves until the end of the test
	return listener.Addr().String()
}

// TestAttackWithoutClientCertificate checks who can call the webhooks if the server has authorities of client
// certificates.
func TestAttackWithoutClientCertificate(t *testing.T) {
	authority, certificate := newAuthority(t)
	_, foreign := newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file         string
		certificates []tls.Certificate
		permitted    bool
	}{
		"no certificate":                       {file: file},
		"certificate of another authority":     {file: file, certificates: []tls.Certificate{foreign}},
		"certificate of the authority":         {file: file, certificates: []tls.Certificate{certificate}, permitted: true},
		"no certificate, and none is required": {permitted: true},
	} {
		t.Run(name, func(t *testing.T) {
			address := startTestServer(t, ServerOptions{ClientCAFile: c.file})
			config := &tls.Config{InsecureSkipVerify: true, Certificates: c.certificates}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
			failure := sendAdmission(client, "https://"+address+MutatePath, newTestReview(admissionv1.Create, attackedJob))
			if permitted := failure == ""; permitted != c.permitted {
				t.Errorf("permitted: %t, want %t: %s", permitted, c.permitted, failure)
			}
		})
	}
}

// TestServerProtocol checks that a client cannot send several requests at the same time on one connection.
func TestServerProtocol(t *testing.T) {
	address := startTestServer(t, ServerOptions{})
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if protocol := conn.ConnectionState().NegotiatedProtocol; protocol != "http/1.1" {
		t.Errorf("the protocol is %s, want http/1.1", protocol)
	}
}

// TestLargeHeader checks that the server does not keep a large header.
func TestLargeHeader(t *testing.T) {
	address := startTestServer(t, ServerOptions{})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+MutatePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Large", strings.Repeat("x", 2*connections.MaxHeaderBytes))
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("code %d, want %d", response.StatusCode, http.StatusRequestHeaderFieldsTooLarge)
	}
}

// silentListener is a listener to which nobody can connect.
type silentListener struct{ net.Conn }

func (l silentListener) Accept() (net.Conn, error) {
	_, err := l.Read(make([]byte, 1)) // until the connection is closed
	return nil, err
}

func (l silentListener) Addr() net.Addr { return l.LocalAddr() }

// TestAttackReadiness checks that clients do not make the pod unready: the readiness probe needs no connection.
func TestAttackReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerOptions{})
		if server.StartedChecker()(nil) == nil {
			t.Error("the server is ready before it serves")
		}
		ctx, stop := context.WithCancel(t.Context())
		client, listener := net.Pipe()
		defer func() { _ = client.Close() }()
		go server.serve(ctx, silentListener{listener}, &tls.Config{}) //nolint:errcheck // it serves until the end of the test
		synctest.Wait()
		if err := server.StartedChecker()(nil); err != nil {
			t.Errorf("while the server serves, it is not ready: %v", err)
		}
		stop()
		synctest.Wait()
		if server.StartedChecker()(nil) == nil {
			t.Error("the server is ready after it stopped")
		}
	})
}
