package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"rollcall.training/certs"
	"rollcall.training/certs/owner"
	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/controller"
	"rollcall.training/webhook"
)

// runManager runs the manager until the context signal is done and the shutdown delay has elapsed. It
// writes logs to stderr.
func runManager(signal context.Context, args []string, stderr io.Writer) error {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return fmt.Errorf("parsing the flags: %w", err)
	}
	level, err := o.parseLogLevel()
	if err != nil {
		return err
	}
	log.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level})))
	reserveMemory()
	serving, draining := delayShutdown(signal, o.shutdownDelay)
	mgr, err := newManager(signal, o, draining)
	if err != nil {
		return err
	}
	if err := mgr.Start(serving); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// reserveMemory reduces the limit of the environment variable GOMEMLIMIT by a tenth. The chart sets the
// variable to the limit of the container, which also includes memory that the Go runtime does not
// manage.
func reserveMemory() {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(limit - limit/10)
	}
}

// newManager returns a manager with certificates, webhooks, reconcilers and probes.
func newManager(ctx context.Context, o options, draining healthz.Checker) (manager.Manager, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the client configuration: %w", err)
	}
	source, err := certs.NewSource(certs.Options{
		RESTConfig: config,
		Namespace:  o.namespace,
		SecretName: o.secretName,
		// API servers call the Service. In development and in tests, the manager runs outside of the
		// cluster, and the API server calls localhost.
		DNSNames:                []string{o.serviceName + "." + o.namespace + ".svc", "localhost"},
		MutatingConfiguration:   o.mutatingConfiguration,
		ValidatingConfiguration: o.validatingConfiguration,
		Address:                 net.JoinHostPort("127.0.0.1", strconv.Itoa(o.webhookPort)),
	})
	if err != nil {
		return nil, fmt.Errorf("setting up certificates: %w", err)
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(config, newManagerOptions(o, scheme, source))
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	if err := mgr.Add(source); err != nil {
		return nil, fmt.Errorf("adding the certificates: %w", err)
	}
	if err := addLeaseOwner(mgr, o); err != nil {
		return nil, err
	}
	domain := o.clusterDomain
	if domain == "" {
		domain = detectClusterDomain("/etc/resolv.conf")
	}
	restartRules, err := detectContainerRestartRules(config)
	if err != nil {
		return nil, err
	}
	version, err := computeVersion(restartRules)
	if err != nil {
		return nil, err
	}
	mgr.GetLogger().Info("Configured the injection engine",
		"clusterDomain", domain, "containerRestartRules", restartRules, "version", version)
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{
		ClusterDomain:                domain,
		DisableContainerRestartRules: !restartRules,
		Build:                        version,
	})
	webhook.Register(mgr.GetWebhookServer(), scheme, engine, func() bool { return draining(nil) != nil })
	namespaces, err := o.parseNamespaceSelector()
	if err != nil {
		return nil, err
	}
	if err := controller.SetupWithManager(ctx, mgr, engine, namespaces); err != nil {
		return nil, err
	}
	return mgr, addProbes(mgr, source, draining)
}

// newManagerOptions returns the options of controller-runtime's manager.
func newManagerOptions(o options, scheme *runtime.Scheme, source *certs.Source) ctrl.Options {
	// An API server waits at most 30 s for a webhook. The chart adds this period and the shutdown delay
	// for terminationGracePeriodSeconds.
	gracePeriod := 30 * time.Second
	return ctrl.Options{
		Scheme:                        scheme,
		Cache:                         newCacheOptions(o.namespaces),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              o.leaseName,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true, // safe, because the process exits after Start returns
		GracefulShutdownTimeout:       &gracePeriod,
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Port:    o.webhookPort,
			TLSOpts: []func(*tls.Config){source.ConfigureTLS},
		}),
	}
}

// addLeaseOwner makes the ServiceAccount of the manager the owner of the Lease, so that the Lease is deleted
// with the installation. controller-runtime starts a RunnableFunc after the election of a leader, so the
// Lease exists by then.
func addLeaseOwner(mgr manager.Manager, o options) error {
	if !o.leaderElect {
		return nil
	}
	client, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return owner.KeepLeaseOwned(ctx, client, o.namespace, o.leaseName)
	}))
	if err != nil {
		return fmt.Errorf("adding the owner of the Lease: %w", err)
	}
	return nil
}

// newCacheOptions returns options that limit the cache to labeled workloads, their pods and their
// Services, without managedFields. This limits the memory of the manager. With a list of namespaces, the
// cache does not read any other namespace, for which the manager then needs no permission.
func newCacheOptions(namespaces []string) cache.Options {
	hasLabel := func(label string) labels.Selector {
		requirement, err := labels.NewRequirement(label, selection.Exists, nil)
		utilruntime.Must(err) // the labels are constants
		return labels.NewSelector().Add(*requirement)
	}
	var byNamespace map[string]cache.Config // nil selects all namespaces
	if len(namespaces) > 0 {
		byNamespace = map[string]cache.Config{}
	}
	for _, namespace := range namespaces {
		byNamespace[namespace] = cache.Config{}
	}
	return cache.Options{
		DefaultNamespaces: byNamespace,
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&batchv1.Job{}:        {Label: hasLabel(gang.LabelFramework), Transform: controller.TrimWorkload},
			&appsv1.StatefulSet{}: {Label: hasLabel(gang.LabelFramework), Transform: controller.TrimWorkload},
			&corev1.Service{}:     {Label: hasLabel(gang.LabelGang)},
			&corev1.Pod{}:         {Label: hasLabel(gang.LabelGang), Transform: controller.TrimPod},
		},
	}
}

// addProbes adds the liveness and readiness probes. The process is alive if it responds. It is ready if
// API servers can call the webhooks and trust the certificate, and if no shutdown has started.
func addProbes(mgr manager.Manager, source *certs.Source, draining healthz.Checker) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness probe: %w", err)
	}
	for name, check := range map[string]healthz.Checker{"certificates": source.Ready, "serving": draining} {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("adding the readiness probe %s: %w", name, err)
		}
	}
	return nil
}
