package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"rollcall.training/internal/connections"
)

// shutdownTimeout is how long a shutdown waits for the requests in flight.
const shutdownTimeout = time.Minute

// ServerOptions configure a [Server].
type ServerOptions struct {
	// Port is the port of all addresses.
	Port int
	// ConfigureTLS sets the source of the serving certificate. If it is nil, the server reads tls.crt and tls.key in
	// CertificateDir, also after a renewal.
	ConfigureTLS   func(*tls.Config)
	CertificateDir string
	// ClientCAFile contains the certificate authorities of client certificates. If it is empty, every client can
	// connect.
	ClientCAFile string
}

// Server serves the endpoints. The server of controller-runtime accepts any number of connections, headers of 1 MiB
// and HTTP/2, by which one connection sends any number of requests. API servers use HTTP/1.1
// (k8s.io/apiserver/pkg/util/webhook, ClientManager.HookClient).
type Server struct {
	ctrlwebhook.Server // registers the endpoints, and is never started

	options ServerOptions
	started atomic.Bool
}

// NewServer returns a server for [Register]. The caller must start it.
func NewServer(o ServerOptions) *Server {
	return &Server{Server: ctrlwebhook.NewServer(ctrlwebhook.Options{}), options: o}
}

// Start serves until the context is done, and then completes the requests in flight.
func (s *Server) Start(ctx context.Context) error {
	config, err := s.newTLSConfig(ctx)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(s.options.Port)))
	if err != nil {
		return fmt.Errorf("listening for API servers: %w", err)
	}
	log.FromContext(ctx).Info("Serving webhooks", "port", s.options.Port, "clientCAFile", s.options.ClientCAFile)
	return s.serve(ctx, listener, config)
}

// serve serves the connections of a listener.
func (s *Server) serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	server := manager.Server{
		Name:            "webhooks",
		Server:          connections.NewServer(s.WebhookMux()),
		Listener:        tls.NewListener(connections.Limit(listener), config),
		ShutdownTimeout: new(shutdownTimeout),
	}
	server.Server.BaseContext = func(net.Listener) context.Context { return ctx }
	s.started.Store(true)
	defer s.started.Store(false)
	if err := server.Start(ctx); err != nil {
		return fmt.Errorf("serving the webhooks: %w", err)
	}
	return nil
}

// newTLSConfig returns the configuration of the server. It reads files again until the context is done.
func (s *Server) newTLSConfig(ctx context.Context) (*tls.Config, error) {
	config := &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	if s.options.ConfigureTLS != nil {
		s.options.ConfigureTLS(config)
	} else {
		watcher, err := certwatcher.New(s.options.CertificateDir+"/tls.crt", s.options.CertificateDir+"/tls.key")
		if err != nil {
			return nil, fmt.Errorf("reading the serving certificate: %w", err)
		}
		config.GetCertificate = watcher.GetCertificate
		go watcher.Start(ctx) //nolint:errcheck // it returns an error only if it cannot read the files, which it did
	}
	if s.options.ClientCAFile == "" {
		return config, nil
	}
	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", s.options.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities of client certificates: %w", err)
	}
	go authorities.Run(ctx, 1)
	config.ClientAuth = tls.RequireAndVerifyClientCert
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := base.Clone()
		if options, ok := authorities.VerifyOptions(); ok {
			current.ClientCAs = options.Roots
		}
		return current, nil
	}
	return config, nil
}

// StartedChecker returns a check that the server listens. It does not connect, because clients that attack the server
// delay connections. Otherwise, the pods would lose their readiness, and API servers could call none of them.
func (s *Server) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook server has not started")
		}
		return nil
	}
}
