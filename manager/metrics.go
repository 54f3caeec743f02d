package manager

import (
	"crypto/tls"
	"errors"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
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

// newServerOptions returns the options of the metrics endpoint. With TLS, API servers authenticate and
// authorize each client, and controller-runtime reloads a renewed certificate.
func (o *metricsOptions) newServerOptions() metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.address}
	if !o.secure {
		return options
	}
	options.SecureServing = true
	options.CertDir = o.certificateDir
	options.FilterProvider = filters.WithAuthenticationAndAuthorization
	// An unauthenticated client can cause much work with HTTP/2 (CVE-2023-44487), and a scrape needs one
	// request.
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	return options
}
