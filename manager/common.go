package manager

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/buildinfo"
)

// gracePeriod is the time in which a terminating process completes its requests and reconciliations. An
// API server waits at most 30 s for a webhook. The chart adds this period for
// terminationGracePeriodSeconds.
const gracePeriod = 30 * time.Second

// commonOptions are the frameworks and the values of the flags of both parts.
type commonOptions struct {
	registry      injectors.Registry
	namespace     string
	metrics       metricsOptions
	probeAddress  string
	clusterDomain string
	agentImage    string
	agentDelivery string
	logLevel      string
	failureOutput bool
	readLogs      bool
	policy        policyOptions
	schedulers    schedulerOptions
}

// The values of the flag --agent-delivery.
const (
	deliveryInit  = "init"
	deliveryImage = "image"
)

// addFlags adds the flags of both parts to f.
func (o *commonOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of the process and of its own objects (default: the environment variable POD_NAMESPACE)")
	o.metrics.addFlags(f)
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of the endpoints /healthz and /readyz")
	f.StringVar(&o.clusterDomain, "cluster-domain", "", "DNS domain of the cluster (default: from /etc/resolv.conf)")
	f.StringVar(&o.agentImage, "agent-image", "", "image with the agent for gangs without ssh: that of the manager")
	f.StringVar(&o.agentDelivery, "agent-delivery", deliveryInit,
		"how the agent comes into pods: init (an init container copies it) or image (an image volume)")
	f.StringVar(&o.logLevel, "log-level", "info", "log level: debug, info, warn or error")
	f.BoolVar(&o.failureOutput, "failure-output", true,
		"copy the last lines of the output of a failed program to status, conditions and Events")
	f.BoolVar(&o.readLogs, "read-logs", false,
		"find hangs by the log of rank 0 of gangs with a pattern, for which the controller needs permissions")
	o.policy.addFlags(f)
	o.schedulers.addFlags(f)
}

// validateFlags returns an error that joins a message for each invalid flag of both parts.
func (o *commonOptions) validateFlags() error {
	var errs []error
	if o.namespace == "" {
		errs = append(errs, errors.New("--namespace: required; set the flag or the environment variable POD_NAMESPACE"))
	}
	if o.clusterDomain != "" {
		for _, message := range validation.IsDNS1123Subdomain(o.clusterDomain) {
			errs = append(errs, fmt.Errorf("--cluster-domain: invalid value %q: %s", o.clusterDomain, message))
		}
	}
	if o.agentDelivery != deliveryInit && o.agentDelivery != deliveryImage {
		errs = append(errs, fmt.Errorf("--agent-delivery: invalid value %q: must be %s or %s",
			o.agentDelivery, deliveryInit, deliveryImage))
	}
	if _, err := o.parseLogLevel(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.metrics.validateFlags(), o.policy.validateFlags(), o.schedulers.validateFlags())
	return errors.Join(errs...)
}

// parseLogLevel returns the level of the flag --log-level.
func (o *commonOptions) parseLogLevel() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return level, fmt.Errorf("--log-level: invalid value %q: must be debug, info, warn or error", o.logLevel)
	}
	return level, nil
}

// setLogLevel sets the level of the log of the process.
func (o *commonOptions) setLogLevel() error {
	level, err := o.parseLogLevel()
	if err != nil {
		return err
	}
	logLevel.Set(level)
	return nil
}

// newManagerOptions returns the common options of controller-runtime's manager.
func (o *commonOptions) newManagerOptions() ctrl.Options {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	period := gracePeriod
	return ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // see addProbes
		GracefulShutdownTimeout: &period,
	}
}

// newEngine returns the injection engine. The engines of the webhook and of the controller are equal,
// because both parts are the same executable in the same cluster.
func (o *commonOptions) newEngine(config *rest.Config) (*injectors.Engine, error) {
	domain := o.clusterDomain
	if domain == "" {
		domain = detectClusterDomain("/etc/resolv.conf")
	}
	restartRules, err := detectContainerRestartRules(config)
	if err != nil {
		return nil, err
	}
	version, err := computeVersion(restartRules, o.agentImage+" "+o.agentDelivery)
	if err != nil {
		return nil, err
	}
	log.Log.Info("Configured the injection engine", "release", buildinfo.Version(), "commit", buildinfo.Commit(),
		"clusterDomain", domain, "containerRestartRules", restartRules, "version", version)
	return injectors.NewEngine(o.registry, gang.Config{
		ClusterDomain:                domain,
		DisableContainerRestartRules: !restartRules,
		OmitFailureOutput:            !o.failureOutput,
		OmitLogs:                     !o.readLogs,
		Scheduler:                    gang.Scheduler(o.schedulers.scheduler),
		SchedulerNames:               o.schedulers.names(),
		QueueGangs:                   o.schedulers.kueueWorkloads,
		DenyRankOrder:                !o.schedulers.rankOrder,
		AgentImage:                   o.agentImage,
		MountsAgent:                  o.agentDelivery == deliveryImage,
		Build:                        version,
	}), nil
}

// addProbes adds the metrics, the liveness probe and the checks of the readiness probe. The process is alive if it
// responds.
func (o *commonOptions) addProbes(mgr manager.Manager, readiness map[string]healthz.Checker) error {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{
		"/healthz": {"ping": healthz.Ping}, "/readyz": readiness,
	} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler) // a single check
	}
	if err := addPort(mgr, "probes", o.probeAddress, mux, nil); err != nil {
		return err
	}
	return o.metrics.addTo(mgr)
}
