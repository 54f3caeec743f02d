package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
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
	registerMetrics = sync.OnceFunc(func() {
		metrics.Registry.MustRegister(expirationTimestamp, missingConfigurations)
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

	// CADuration and LeafDuration are the validity of a CA and of a serving certificate, which are renewed after two
	// thirds. Required. A CA must be valid for at least three times as long, so that no certificate outlives its CA.
	CADuration, LeafDuration time.Duration
}

// Source provides the serving certificate and makes the API servers trust it. It is a controller-runtime
// Runnable without leader election, and its method Ready is a healthz.Checker.
type Source struct {
	reconciler *bundleReconciler
}

// NewSource returns a Source. The caller must start it. NewSource makes no API request.
func NewSource(o Options) (*Source, error) {
	switch {
	case o.SecretName == "":
		return nil, errors.New("option SecretName: required")
	case o.MutatingConfiguration == "" && o.ValidatingConfiguration == "":
		return nil, errors.New("options MutatingConfiguration, ValidatingConfiguration: at least one is required")
	}
	registerMetrics()
	client, err := kubernetes.NewForConfig(o.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &Source{reconciler: newBundleReconciler(client, o)}, nil
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

// Ready returns nil if API servers can call the webhooks: a certificate is loaded, and the caBundle of every
// webhook in the cluster contains its CA. The server of the webhooks must have a check of its own.
// Ready uses the cache of a watch and makes no API request, so an unavailable API server does not change
// the result.
//
// Ready is a healthz.Checker for the readiness probe. The documentation of the package explains why the
// liveness probe must not use it.
func (s *Source) Ready(*http.Request) error {
	certificate, err := s.GetCertificate(nil)
	if err != nil {
		// The reason for the missing certificate is more useful than the fact that it is missing.
		if _, trustErr := s.reconciler.trust.trustedCAs(); trustErr != nil {
			return fmt.Errorf("waiting for the CA bundle: %w", trustErr)
		}
		return fmt.Errorf("waiting for a serving certificate: %w", err)
	}
	_, err = s.reconciler.trust.verifyLeaf(certificate.Leaf, s.reconciler.leaf.dnsNames[0], time.Now())
	return err
}

// ConfigureTLS configures a server to serve the certificate. It has the signature of TLSOpts in
// controller-runtime's webhook.Options.
func (s *Source) ConfigureTLS(config *tls.Config) {
	config.GetCertificate = s.GetCertificate
	// The only clients are this process and supported API servers, which use TLS 1.3.
	config.MinVersion = tls.VersionTLS13
}
