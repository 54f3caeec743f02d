package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// DefaultCADuration is the default validity of a CA. It is long because the bundle and the
	// certificate change together only in a rotation. It is short enough that a rotation, every eight
	// months, remains a known event.
	DefaultCADuration = 365 * 24 * time.Hour

	// DefaultLeafDuration is the default validity of a serving certificate. After a renewal is due, a third
	// of the validity remains: 56 hours. A node that is suspended for two days therefore does not serve an
	// expired certificate when it resumes. A renewal needs no API request.
	DefaultLeafDuration = 7 * 24 * time.Hour

	// maxPropagationDelay is the time for which a CA must be in every bundle before a replica serves
	// certificates of that CA. API servers watch the webhook configurations, usually with a delay far below
	// one second. The former certificate remains valid in the meantime.
	maxPropagationDelay = 10 * time.Second

	// propagationDelayDivisor limits the propagation delay to a sixth of the validity of a certificate. At
	// renewal, a third of the validity remains, so the limit is half of that. It takes effect only for
	// certificates that are valid for less than a minute, as in tests.
	propagationDelayDivisor = 6

	// checkInterval is the interval in which a replica checks whether it needs a new certificate. While the
	// certificate must not be served yet, each check generates a key, which takes about a millisecond. The
	// start of the manager can take longer by one interval.
	checkInterval = 250 * time.Millisecond

	// caCommonName is the common name in the subject of the CA.
	caCommonName = "rollcall-ca"
)

// registerMetrics registers the metrics once, in the first call of [NewSource].
var (
	expirationTimestamp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rollcall_certificate_expiration_timestamp_seconds",
		Help: "Expiration time of the serving certificate of this replica, in seconds since the Unix epoch; " +
			"0 if there is no certificate yet.",
	})
	registerMetrics = sync.OnceValue(func() error {
		return errors.Join(metrics.Registry.Register(expirationTimestamp), metrics.Registry.Register(missingConfigurations))
	})
)

// Options configure a [Source].
type Options struct {
	// RESTConfig is the configuration of the client. Required.
	RESTConfig *rest.Config

	// Namespace and SecretName identify the Secret with the CA. A missing Secret is created, an empty
	// Secret is filled, and a Secret without a valid CA and key is overwritten. Required.
	Namespace, SecretName string

	// DNSNames are the names in the serving certificate. The first must be the name that API servers call:
	// <service>.<namespace>.svc for a webhook with clientConfig.service. Required.
	DNSNames []string

	// MutatingConfiguration and ValidatingConfiguration are the names of the webhook configurations whose
	// caBundles the source writes. All webhooks of these configurations must belong to this webhook
	// server. An empty name means that there is no configuration of that kind. At least one is required.
	// The configurations may be created later. The source never creates them.
	MutatingConfiguration, ValidatingConfiguration string

	// CADuration is the validity of a CA, which is renewed after two thirds. The zero value means
	// DefaultCADuration. It must be at least three times LeafDuration, so that no certificate outlives its
	// CA.
	CADuration time.Duration

	// LeafDuration is the validity of a serving certificate, which is renewed after two thirds. The zero
	// value means DefaultLeafDuration.
	LeafDuration time.Duration
}

// Source provides the serving certificate and makes the API servers trust it. It is a controller-runtime
// Runnable without leader election, and its method Ready is a healthz.Checker.
type Source struct {
	reconciler *bundleReconciler
}

// NewSource returns a Source. The caller must start it. NewSource makes no API request. It returns an
// error if a required option is missing or if options conflict.
func NewSource(o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := registerMetrics(); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	client, err := kubernetes.NewForConfig(o.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &Source{reconciler: newBundleReconciler(client, o)}, nil
}

// withDefaults returns the options with default values, or an error that names the invalid option.
func (o Options) withDefaults() (Options, error) {
	if o.CADuration == 0 {
		o.CADuration = DefaultCADuration
	}
	if o.LeafDuration == 0 {
		o.LeafDuration = DefaultLeafDuration
	}
	switch {
	case o.RESTConfig == nil:
		return o, errors.New("option RESTConfig: required")
	case o.Namespace == "":
		return o, errors.New("option Namespace: required")
	case o.SecretName == "":
		return o, errors.New("option SecretName: required")
	case len(o.DNSNames) == 0:
		return o, errors.New("option DNSNames: required")
	case o.MutatingConfiguration == "" && o.ValidatingConfiguration == "":
		return o, errors.New("options MutatingConfiguration, ValidatingConfiguration: at least one is required")
	case o.LeafDuration < 0:
		return o, fmt.Errorf("option LeafDuration: %s must not be negative", o.LeafDuration)
	case o.CADuration < 3*o.LeafDuration:
		return o, fmt.Errorf("option CADuration: %s must be at least three times LeafDuration (%s)",
			o.CADuration, o.LeafDuration)
	}
	return o, nil
}

// Start maintains the CA, the certificate and the bundles until ctx is done. It logs errors to the logger
// of ctx and retries indefinitely. It returns nil after ctx is done.
func (s *Source) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("certs")
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.reconciler.runWorker(ctx, logger) })
	group.Go(func() error {
		s.reconciler.leaf.run(ctx, logger)
		return nil
	})
	return group.Wait()
}

// NeedLeaderElection returns false, because every replica has its own certificate and may renew the CA.
func (s *Source) NeedLeaderElection() bool { return false }

// GetCertificate returns the serving certificate, or an error if no certificate is loaded yet. It has the
// signature of the field in tls.Config.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	certificate := s.reconciler.leaf.serving.Load()
	if certificate == nil {
		return nil, errors.New("no serving certificate is loaded yet")
	}
	return certificate, nil
}

// ConfigureTLS configures a server to serve the certificate. It has the signature of TLSOpts in
// controller-runtime's webhook.Options.
func (s *Source) ConfigureTLS(config *tls.Config) {
	config.GetCertificate = s.GetCertificate
	// The only clients are this process and supported API servers, which use TLS 1.3.
	config.MinVersion = tls.VersionTLS13
}
