package manager

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"rollcall.training/internal/connections"
)

// metricsOptions are the values of the flags of the metrics endpoint.
type metricsOptions struct {
	address        string
	secure         bool
	certificateDir string
}

// addFlags adds the flags of the metrics endpoint to f.
func (o *metricsOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.address, "metrics-bind-address", ":8080", "address of the metrics endpoint, 0 to disable it")
	f.BoolVar(&o.secure, "metrics-secure", false,
		"serve metrics with TLS, and only to clients whose token permits GET of the path /metrics")
	f.StringVar(&o.certificateDir, "metrics-certificate-dir", "",
		"directory with tls.crt and tls.key for --metrics-secure (default: a self-signed certificate)")
}

// validateFlags returns an error if the flags conflict.
func (o *metricsOptions) validateFlags() error {
	if o.certificateDir != "" && !o.secure {
		return errors.New("--metrics-certificate-dir: has no effect without --metrics-secure; set both")
	}
	return nil
}

// addTo adds the metrics endpoint to a manager. With TLS, API servers authenticate and authorize each client.
func (o *metricsOptions) addTo(mgr manager.Manager) error {
	handler := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	var config *tls.Config
	if o.secure {
		filter, err := filters.WithAuthenticationAndAuthorization(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return fmt.Errorf("setting up the authentication of metrics: %w", err)
		}
		if handler, err = filter(log.Log, handler); err != nil {
			return fmt.Errorf("setting up the authorization of metrics: %w", err)
		}
		if config, err = o.newTLSConfig(mgr); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	return addPort(mgr, "metrics", o.address, mux, config)
}

// newTLSConfig returns the configuration for the certificate, which the manager reads again after a renewal.
func (o *metricsOptions) newTLSConfig(mgr manager.Manager) (*tls.Config, error) {
	// An unauthenticated client can cause much work with HTTP/2 (CVE-2023-44487), and a scrape needs one
	// request.
	config := &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	if o.certificateDir != "" {
		watcher, err := certwatcher.New(o.certificateDir+"/tls.crt", o.certificateDir+"/tls.key")
		if err != nil {
			return nil, fmt.Errorf("reading the certificate of metrics: %w", err)
		}
		config.GetCertificate = watcher.GetCertificate
		if err := mgr.Add(watcher); err != nil {
			return nil, fmt.Errorf("adding the certificate of metrics: %w", err)
		}
		return config, nil
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", nil, nil, "")
	if err != nil {
		return nil, fmt.Errorf("creating a certificate for metrics: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate for metrics: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// addPort adds a server of probes or metrics to a manager, unless the address is 0.
func addPort(mgr manager.Manager, name, address string, h http.Handler, config *tls.Config) error {
	if address == "0" {
		return nil
	}
	server, err := connections.NewPort(name, address, h, config)
	if err != nil {
		return fmt.Errorf("opening a port: %w", err)
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("adding the port of %s: %w", name, err)
	}
	return nil
}
