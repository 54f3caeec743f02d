package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// DefaultCADuration is long because a rotation is the only time when bundle and certificate have to change
	// together, and short enough that one happens (at two thirds: every eight months) before everyone has forgotten
	// that it does.
	DefaultCADuration = 365 * 24 * time.Hour

	// DefaultLeafDuration is so long that the third of it which is left at renewal, 56 hours, outlasts a node that is
	// suspended for two days: no expired certificate is served when it wakes. Renewal needs no API call.
	DefaultLeafDuration = 7 * 24 * time.Hour

	// maxSettle is how long a CA has to be in every bundle before its certificates replace those of the former one.
	// API servers read webhook configurations by a watch; its usual lag is well below a second. Waiting costs nothing,
	// as the former certificate is good meanwhile.
	maxSettle = 10 * time.Second

	// settleFraction of a certificate's life is the most that is waited. At renewal a third is left, so half of that
	// remains. It matters only where certificates live for less than a minute, as in tests.
	settleFraction = 6

	// retryInterval is how often a certificate that may not be served yet is asked for again. It costs a key each time,
	// a millisecond of work, and is what a start lasts longer than it would have to.
	retryInterval = 250 * time.Millisecond

	// commonName of the CA's subject.
	commonName = "rollcall-ca"
)

// expiry is registered by the first New.
var (
	expiry = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rollcall_certificate_expiry_seconds",
		Help: "When the serving certificate of this replica expires, in seconds since the Unix epoch; 0 before there is one.",
	})
	registerMetrics = sync.OnceValue(func() error { return metrics.Registry.Register(expiry) })
)

// Options say where the certificates come from and who has to trust them.
type Options struct {
	// RESTConfig is how the API server is reached. Required.
	RESTConfig *rest.Config

	// Namespace and SecretName are where the CA is kept. The Secret is made when there is none, is filled when it is
	// empty, and is overwritten when what it holds is not a CA with its key. Required.
	Namespace, SecretName string

	// DNSNames are what the serving certificate is valid for. The first has to be the name that API servers call: for
	// a webhook with clientConfig.service it is <service>.<namespace>.svc. Required.
	DNSNames []string

	// MutatingConfiguration and ValidatingConfiguration are the names of the webhook configurations whose caBundles
	// are kept. All webhooks of a configuration are ours. An empty name means that there is none of the kind; one of
	// the two is required. They need not exist yet, and they are never created.
	MutatingConfiguration, ValidatingConfiguration string

	// Address is the host:port of our own webhook listener, such as "127.0.0.1:9443", which Ready connects to. Empty:
	// Ready does not.
	Address string

	// CADuration is how long a CA is valid; a new one is made after two thirds of it. Zero: DefaultCADuration. It has
	// to be at least three times LeafDuration, so that no certificate is cut short by the end of its CA.
	CADuration time.Duration

	// LeafDuration is how long a serving certificate is valid; a new one is made after two thirds of it. Zero:
	// DefaultLeafDuration.
	LeafDuration time.Duration
}

// Source is the source of the serving certificate, and of the API servers' trust in it. It is a controller-runtime
// Runnable which needs no leader election, and its Ready is a healthz.Checker.
type Source struct {
	options Options
	keeper  *keeper
	dynamic *servertls.DynamicSource
}

// New returns a Source that does nothing until it is started. It fails if a required option is missing or if options
// contradict each other; the API server is not contacted.
func New(o Options) (*Source, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := registerMetrics(); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	client, err := kubernetes.NewForConfig(o.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	s := &Source{options: o, keeper: newKeeper(client, o)}
	s.dynamic = &servertls.DynamicSource{
		DNSNames:      o.DNSNames,
		RetryInterval: retryInterval,
		Authority: &gate{
			Authority: &authority.DynamicAuthority{
				SecretNamespace: o.Namespace,
				SecretName:      o.SecretName,
				RESTConfig:      o.RESTConfig,
				CommonName:      commonName,
				CADuration:      o.CADuration,
				LeafDuration:    o.LeafDuration,
			},
			trust:   s.keeper.trust,
			dnsName: o.DNSNames[0],
			settle:  min(maxSettle, o.LeafDuration/settleFraction),
			serving: s.serving,
		},
	}
	return s, nil
}

// complete returns the options with defaults filled in, or an error that names the option at fault.
func (o Options) complete() (Options, error) {
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
		return o, errors.New("options MutatingConfiguration, ValidatingConfiguration: one is required")
	case o.LeafDuration < 0:
		return o, fmt.Errorf("option LeafDuration: %s is negative", o.LeafDuration)
	case o.CADuration < 3*o.LeafDuration:
		return o, fmt.Errorf("option CADuration: %s is less than three times LeafDuration, %s", o.CADuration, o.LeafDuration)
	}
	return o, nil
}

// Start keeps CA, certificate and bundle until ctx is done, and then returns nil. What goes wrong on the way is logged
// to ctx's logger and tried again, forever.
func (s *Source) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("certs")
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.keeper.run(ctx, logger) })
	group.Go(func() error { return s.dynamic.Start(logr.NewContext(ctx, quiet(logger))) })
	return group.Wait()
}

// NeedLeaderElection is false: each replica has a certificate of its own, and any may renew the CA.
func (s *Source) NeedLeaderElection() bool { return false }

// GetCertificate returns the serving certificate, or an error while there is none. It is meant for tls.Config.
func (s *Source) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.dynamic.GetCertificate(hello)
}

// ConfigureTLS makes a server serve our certificate. It is meant for TLSOpts of controller-runtime's webhook.Options.
func (s *Source) ConfigureTLS(c *tls.Config) {
	c.GetCertificate = s.GetCertificate
	// The only clients are API servers of a supported version, and ourselves: all speak 1.3.
	c.MinVersion = tls.VersionTLS13
}

// leaf returns the certificate that is being served.
func (s *Source) leaf() (*x509.Certificate, error) {
	c, err := s.GetCertificate(nil)
	if err != nil {
		return nil, err
	}
	if c.Leaf != nil { // tls.X509KeyPair sets it, unless GODEBUG=x509keypairleaf=0.
		return c.Leaf, nil
	}
	return x509.ParseCertificate(c.Certificate[0])
}

// serving says whether there is a certificate whose replacement could do harm.
func (s *Source) serving() bool {
	leaf, err := s.leaf()
	return err == nil && time.Now().Before(leaf.NotAfter)
}

// gate is an authority that signs only what API servers trust already.
type gate struct {
	servertls.Authority

	trust   *trust
	dnsName string
	settle  time.Duration
	serving func() bool
}

// Sign signs template, or returns an error that wraps authority.ErrCertificateNotAvailable for as long as the result
// should not be served. DynamicSource asks again soon, and keeps its former certificate meanwhile.
func (g *gate) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	leaf, err := g.Authority.Sign(template)
	if err != nil {
		return nil, err
	}
	since, err := g.trust.verify(leaf, g.dnsName, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", authority.ErrCertificateNotAvailable, err)
	}
	if age := time.Since(since); age < g.settle && g.serving() {
		return nil, fmt.Errorf("%w: its CA has been in the bundle for %s of %s",
			authority.ErrCertificateNotAvailable, age.Round(time.Second), g.settle)
	}
	expiry.Set(float64(leaf.NotAfter.Unix()))
	return leaf, nil
}
