package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"rollcall.training/injectors"
	"rollcall.training/internal/certs"
	"rollcall.training/internal/policy/configmap"
	"rollcall.training/internal/webhook"
)

// webhookOptions are the values of the flags of the webhook. The chart sets every flag except the validity
// of certificates.
type webhookOptions struct {
	commonOptions
	port                    int
	serviceName             string
	secretName              string
	mutatingConfiguration   string
	validatingConfiguration string
	certificateDir          string
	clientCAFile            string
	shutdownDelay           time.Duration
	caDuration              time.Duration
	leafDuration            time.Duration
}

func newWebhookCommand(registry injectors.Registry) *cobra.Command {
	o := webhookOptions{commonOptions: commonOptions{registry: registry}}
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Serve the admission webhooks and manage their certificates",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validateFlags(); err != nil {
				return fmt.Errorf("parsing the flags: %w", err)
			}
			return runWebhook(cmd.Context(), o)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// addFlags adds the flags of the webhook to f.
func (o *webhookOptions) addFlags(f *pflag.FlagSet) {
	o.commonOptions.addFlags(f)
	f.IntVar(&o.port, "port", 9443, "port of the admission webhooks")
	f.StringVar(&o.serviceName, "service-name", "rollcall",
		"name of the Service through which API servers call the webhooks")
	f.StringVar(&o.secretName, "secret-name", "rollcall-ca", "name of the Secret with the certificate authority")
	f.StringVar(&o.mutatingConfiguration, "mutating-webhook-configuration", "rollcall",
		"name of the MutatingWebhookConfiguration whose CA bundles the webhook writes")
	f.StringVar(&o.validatingConfiguration, "validating-webhook-configuration", "rollcall",
		"name of the ValidatingWebhookConfiguration whose CA bundles the webhook writes")
	f.StringVar(&o.certificateDir, "certificate-dir", "",
		"directory with tls.crt and tls.key, which somebody else renews (default: the webhook manages its certificates)")
	f.StringVar(&o.clientCAFile, "client-ca-file", "",
		"file with the certificate authorities of API servers; only clients with a certificate can then call the webhooks "+
			"(default: every client can)")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay", 10*time.Second,
		"time for which the webhook serves requests after SIGTERM, while its readiness probe fails")
	f.DurationVar(&o.caDuration, "ca-duration", certs.DefaultCADuration,
		"validity of the certificate authority; a short validity is for tests of the renewal")
	f.DurationVar(&o.leafDuration, "leaf-duration", certs.DefaultLeafDuration,
		"validity of the serving certificate, at most a third of --ca-duration")
}

// validateFlags returns an error that joins a message for each invalid flag.
func (o *webhookOptions) validateFlags() error {
	errs := []error{o.commonOptions.validateFlags()}
	for _, message := range validation.IsValidPortNum(o.port) {
		errs = append(errs, fmt.Errorf("--port: invalid value %d: %s", o.port, message))
	}
	if o.shutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay: invalid value %s: must not be negative", o.shutdownDelay))
	}
	if o.leafDuration <= 0 || o.caDuration < 3*o.leafDuration {
		errs = append(errs, fmt.Errorf("--leaf-duration: invalid value %s: must be positive and at most a third of "+
			"--ca-duration (%s)", o.leafDuration, o.caDuration))
	}
	return errors.Join(errs...)
}

// runWebhook serves the webhooks until the context signal is done and the shutdown delay has elapsed.
func runWebhook(signal context.Context, o webhookOptions) error {
	if err := o.setLogLevel(); err != nil {
		return err
	}
	webhook.LimitMemory()
	if err := o.waitForAPIServer(signal); err != nil {
		return err
	}
	serving, draining := delayShutdown(signal, o.shutdownDelay)
	mgr, err := newWebhookManager(o, draining)
	if err != nil {
		return err
	}
	return startManager(serving, mgr)
}

// newWebhookManager returns a manager with certificates, webhooks and probes. It has no leader election
// and reads no gangs: the webhooks read only the request and the policy, so they respond as soon as there
// is a certificate.
func newWebhookManager(o webhookOptions, draining healthz.Checker) (manager.Manager, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the client configuration: %w", err)
	}
	options := o.newManagerOptions()
	serverOptions := webhook.ServerOptions{
		Port: o.port, CertificateDir: o.certificateDir, ClientCAFile: o.clientCAFile,
	}
	var source *certs.Source // nil if somebody else provides the certificate
	if o.certificateDir == "" {
		if source, err = o.newCertificateSource(config); err != nil {
			return nil, err
		}
		serverOptions.ConfigureTLS = source.ConfigureTLS
	}
	options.WebhookServer = webhook.NewServer(serverOptions)
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	// The webhook is ready if API servers can call it and trust its certificate, if it has a policy or
	// needs none, and if no shutdown has started. Only whoever provides the certificate can know whether
	// API servers trust it.
	readiness := map[string]healthz.Checker{"server": mgr.GetWebhookServer().StartedChecker(), "serving": draining}
	if source != nil {
		readiness["certificates"] = source.Ready
		if err := mgr.Add(source); err != nil {
			return nil, fmt.Errorf("adding the certificates: %w", err)
		}
	}
	return mgr, o.addWebhooks(mgr, draining, readiness)
}

// addWebhooks adds the webhooks, the policy and the probes to a manager.
func (o *webhookOptions) addWebhooks(
	mgr manager.Manager, draining healthz.Checker, readiness map[string]healthz.Checker,
) error {
	engine, err := o.newEngine(mgr.GetConfig())
	if err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("creating a discovery client: %w", err)
	}
	schedulers := newSchedulerFacts(client, o.schedulers)
	if err := mgr.Add(schedulers); err != nil {
		return fmt.Errorf("adding the discovery of schedulers: %w", err)
	}
	engine = engine.WithFacts(schedulers.find, func() string { return schedulers.find(queueObjects) })
	endpoints := webhook.Options{Engine: engine, Draining: func() bool { return draining(nil) != nil }}
	policies, err := o.policy.addPolicySource(mgr, o.namespace, engine.Frameworks())
	if err != nil {
		return err
	}
	if policies != nil {
		endpoints.Policy = webhook.NewPolicyEnforcer(policies, clock.RealClock{})
		endpoints.PolicyFile = configmap.FileHandler{
			Name: o.policy.configMap, Reader: o.policy.newFileReader(engine.Frameworks()),
		}
		readiness["policy"] = policies.Ready
	}
	webhook.Register(mgr.GetWebhookServer(), endpoints)
	return o.addProbes(mgr, readiness)
}

// newCertificateSource returns the certificates of a webhook that manages them.
func (o *webhookOptions) newCertificateSource(config *rest.Config) (*certs.Source, error) {
	source, err := certs.NewSource(certs.Options{
		RESTConfig: config,
		Namespace:  o.namespace,
		SecretName: o.secretName,
		// API servers call the Service. In development and in tests, the webhook runs outside of the
		// cluster, and the API server calls localhost.
		DNSNames:                []string{o.serviceName + "." + o.namespace + ".svc", "localhost"},
		MutatingConfiguration:   o.mutatingConfiguration,
		ValidatingConfiguration: o.validatingConfiguration,
		CADuration:              o.caDuration,
		LeafDuration:            o.leafDuration,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up certificates: %w", err)
	}
	return source, nil
}
