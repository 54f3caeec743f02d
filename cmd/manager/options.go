package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// options are the values of the flags. The chart sets every flag.
type options struct {
	webhookPort             int
	metricsAddress          string
	probeAddress            string
	namespace               string
	serviceName             string
	secretName              string
	mutatingConfiguration   string
	validatingConfiguration string
	clusterDomain           string
	namespaceSelector       string
	namespaces              []string
	leaderElect             bool
	leaseName               string
	shutdownDelay           time.Duration
	logLevel                string
}

// parseFlags parses and validates the flags. The error lists all invalid flags.
func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the admission webhooks")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics endpoint, 0 to disable it")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of the endpoints /healthz and /readyz")
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of the manager, the Secret and the Lease (default: the environment variable POD_NAMESPACE)")
	f.StringVar(&o.serviceName, "service-name", "rollcall",
		"name of the Service through which API servers call the webhooks")
	f.StringVar(&o.secretName, "secret-name", "rollcall-ca", "name of the Secret with the certificate authority")
	f.StringVar(&o.mutatingConfiguration, "mutating-webhook-configuration", "rollcall",
		"name of the MutatingWebhookConfiguration whose CA bundles the manager writes")
	f.StringVar(&o.validatingConfiguration, "validating-webhook-configuration", "rollcall",
		"name of the ValidatingWebhookConfiguration whose CA bundles the manager writes")
	f.StringVar(&o.clusterDomain, "cluster-domain", "", "DNS domain of the cluster (default: from /etc/resolv.conf)")
	f.StringVar(&o.namespaceSelector, "namespace-selector", "{}",
		"LabelSelector of the namespaces whose gangs are reconciled, as JSON; the selector of the webhooks")
	f.BoolVar(&o.leaderElect, "leader-elect", false,
		"reconcile gangs only as the elected leader, required for several replicas")
	f.StringVar(&o.leaseName, "lease-name", "rollcall", "name of the Lease of the leader election")
	f.StringSliceVar(&o.namespaces, "namespaces", nil,
		"namespaces whose gangs are reconciled, separated by commas (default: all namespaces)")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay", 10*time.Second,
		"time for which the manager serves requests after SIGTERM, while its readiness probe fails")
	f.StringVar(&o.logLevel, "log-level", "info", "log level: debug, info, warn or error")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, o.validateFlags()
}

// validateFlags returns an error that joins a message for each invalid flag.
func (o options) validateFlags() error {
	var errs []error
	if o.namespace == "" {
		errs = append(errs, errors.New("--namespace: required; set the flag or the environment variable POD_NAMESPACE"))
	}
	for _, message := range validation.IsValidPortNum(o.webhookPort) {
		errs = append(errs, fmt.Errorf("--webhook-port: invalid value %d: %s", o.webhookPort, message))
	}
	if o.clusterDomain != "" {
		for _, message := range validation.IsDNS1123Subdomain(o.clusterDomain) {
			errs = append(errs, fmt.Errorf("--cluster-domain: invalid value %q: %s", o.clusterDomain, message))
		}
	}
	if _, err := o.parseNamespaceSelector(); err != nil {
		errs = append(errs, err)
	}
	for _, namespace := range o.namespaces {
		for _, message := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, fmt.Errorf("--namespaces: invalid value %q: %s", namespace, message))
		}
	}
	if o.shutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay: invalid value %s: must not be negative", o.shutdownDelay))
	}
	if _, err := o.parseLogLevel(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parseNamespaceSelector returns the selector of the flag --namespace-selector. Unknown fields are errors:
// an ignored condition would select more namespaces than its author intended.
func (o options) parseNamespaceSelector() (labels.Selector, error) {
	var selector metav1.LabelSelector
	decoder := json.NewDecoder(strings.NewReader(o.namespaceSelector))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&selector); err != nil {
		return nil, fmt.Errorf("--namespace-selector: invalid value %q: must be a LabelSelector as JSON: %w",
			o.namespaceSelector, err)
	}
	out, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, fmt.Errorf("--namespace-selector: invalid value %q: %w", o.namespaceSelector, err)
	}
	return out, nil
}

// parseLogLevel returns the level of the flag --log-level.
func (o options) parseLogLevel() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return level, fmt.Errorf("--log-level: invalid value %q: must be debug, info, warn or error", o.logLevel)
	}
	return level, nil
}
