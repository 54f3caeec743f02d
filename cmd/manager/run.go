package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
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
	"rollcall.training/controller"
	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/webhook"
)

// leaseName is the Lease of the leader election; the chart grants rights to it by
// this name.
const leaseName = "rollcall"

// run serves until the signal context ends and the drain is over.
func run(signal context.Context, args []string, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	level, err := o.level()
	if err != nil {
		return err
	}
	log.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level})))
	serving, draining := drain(signal, o.shutdownDelay)
	mgr, err := newManager(signal, o, draining)
	if err != nil {
		return err
	}
	if err := mgr.Start(serving); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// newManager puts the parts together: certificates, webhook, reconcilers, probes.
func newManager(ctx context.Context, o options, draining healthz.Checker) (manager.Manager, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	source, err := certs.New(certs.Options{
		RESTConfig: config,
		Namespace:  o.namespace,
		SecretName: o.secret,
		// The API server calls the Service; a manager that runs outside of its cluster, in
		// development and in tests, is called by URL.
		DNSNames:                []string{o.service + "." + o.namespace + ".svc", "localhost"},
		MutatingConfiguration:   o.mutating,
		ValidatingConfiguration: o.validating,
		Address:                 net.JoinHostPort("127.0.0.1", strconv.Itoa(o.webhookPort)),
	})
	if err != nil {
		return nil, fmt.Errorf("setting up certificates: %w", err)
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(config, managerOptions(o, scheme, source))
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
		domain = clusterDomain("/etc/resolv.conf")
	}
	old, err := noRestartRules(config)
	if err != nil {
		return nil, err
	}
	name, err := build(old)
	if err != nil {
		return nil, err
	}
	mgr.GetLogger().Info("Addressing ranks", "clusterDomain", domain, "restartInPlace", !old, "build", name)
	engine := injectors.New(injectors.Builtin(), gang.Config{ClusterDomain: domain, NoRestartRules: old, Build: name})
	webhook.Register(mgr.GetWebhookServer(), scheme, engine, func() bool { return draining(nil) != nil })
	if err := controller.SetupWithManager(ctx, mgr, engine); err != nil {
		return nil, err
	}
	return mgr, addProbes(mgr, source, draining)
}

func managerOptions(o options, scheme *runtime.Scheme, source *certs.Source) ctrl.Options {
	// For calls in flight: the API server waits 5 s for each. The chart's
	// terminationGracePeriodSeconds holds this and the shutdown delay.
	grace := 30 * time.Second
	return ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions(),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddr},
		HealthProbeBindAddress:        o.probeAddr,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends right after Start returns
		GracefulShutdownTimeout:       &grace,
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Port:    o.webhookPort,
			TLSOpts: []func(*tls.Config){source.ConfigureTLS},
		}),
	}
}

// addLeaseOwner makes the Lease go with the installation. The Lease exists once
// there is a leader, which is also when controller-runtime starts a RunnableFunc.
func addLeaseOwner(mgr manager.Manager, o options) error {
	if !o.leaderElect {
		return nil
	}
	client, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return owner.KeepLease(ctx, client, o.namespace, leaseName)
	}))
	if err != nil {
		return fmt.Errorf("adding the owner of the Lease: %w", err)
	}
	return nil
}

// cacheOptions keep the manager's memory to what is ours: labelled workloads and
// the Services made for them, without the field ownership that nobody reads.
func cacheOptions() cache.Options {
	has := func(label string) labels.Selector {
		r, err := labels.NewRequirement(label, selection.Exists, nil)
		utilruntime.Must(err) // the labels are constants
		return labels.NewSelector().Add(*r)
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&batchv1.Job{}:        {Label: has(gang.LabelFramework)},
			&appsv1.StatefulSet{}: {Label: has(gang.LabelFramework)},
			&corev1.Service{}:     {Label: has(gang.LabelGang)},
			&corev1.Pod{}:         {Label: has(gang.LabelGang), Transform: controller.Strip},
		},
	}
}

// addProbes: alive means that the process answers; ready means that the API server
// can call the webhook and trusts what it finds, and that no shutdown has begun.
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
