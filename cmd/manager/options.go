package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// options are the manager's flags. The chart sets all of them.
type options struct {
	webhookPort   int
	metricsAddr   string
	probeAddr     string
	namespace     string
	service       string
	secret        string
	mutating      string
	validating    string
	clusterDomain string
	leaderElect   bool
	shutdownDelay time.Duration
	logLevel      string
}

// parse reads the flags. Its error is for the one who wrote the command line.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the admission webhook")
	f.StringVar(&o.metricsAddr, "metrics-bind-address", ":8080", "address of the metrics; 0 for none")
	f.StringVar(&o.probeAddr, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that Rollcall runs in; from POD_NAMESPACE when absent")
	f.StringVar(&o.service, "service-name", "rollcall", "Service by which the API server calls the webhook")
	f.StringVar(&o.secret, "secret-name", "rollcall-ca", "Secret that holds the certificate authority")
	f.StringVar(&o.mutating, "mutating-webhook-configuration", "rollcall", "MutatingWebhookConfiguration to keep the CA bundle of")
	f.StringVar(&o.validating, "validating-webhook-configuration", "rollcall", "ValidatingWebhookConfiguration to keep the CA bundle of")
	f.StringVar(&o.clusterDomain, "cluster-domain", "", "DNS domain of the cluster; from /etc/resolv.conf when absent")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "follow gangs only while holding the lease; needed with several replicas")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay", 10*time.Second, "how long to go on serving after SIGTERM, while readiness fails")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o options) check() error {
	var errs []error
	if o.namespace == "" {
		errs = append(errs, errors.New("--namespace: required where POD_NAMESPACE is not set"))
	}
	for _, msg := range validation.IsValidPortNum(o.webhookPort) {
		errs = append(errs, fmt.Errorf("--webhook-port: %d %s", o.webhookPort, msg))
	}
	if o.clusterDomain != "" {
		for _, msg := range validation.IsDNS1123Subdomain(o.clusterDomain) {
			errs = append(errs, fmt.Errorf("--cluster-domain: %q: %s", o.clusterDomain, msg))
		}
	}
	if o.shutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay: %s is negative", o.shutdownDelay))
	}
	if _, err := o.level(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (o options) level() (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(o.logLevel)); err != nil {
		return l, fmt.Errorf("--log-level: %q is not debug, info, warn or error", o.logLevel)
	}
	return l, nil
}
