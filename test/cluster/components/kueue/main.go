// Command kueue is Kueue's manager for plain Jobs: its controllers, scheduler and webhooks, and
// only the integration for Jobs. The standard program links sixteen integrations, with the clients
// of Ray, Kubeflow, JobSet and others, and serves an additional API.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/multikueue"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs/job" // Registers itself.
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/kubeversion"
	"sigs.k8s.io/kueue/pkg/util/roletracker"
	"sigs.k8s.io/kueue/pkg/webhooks"
)

func main() {
	file := flag.String("config", "", "Kueue's configuration")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	if err := run(ctrl.SetupSignalHandler(), *file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kueue.AddToScheme, configapi.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	options, cfg, err := config.Load(scheme, file)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if err := config.AddWebhookSettingsTo(&options, &cfg); err != nil {
		return fmt.Errorf("reading the settings of the webhook: %w", err)
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := setup(ctx, mgr, &cfg); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// setup initializes the parts in the order of the standard program.
func setup(ctx context.Context, mgr ctrl.Manager, cfg *configapi.Configuration) error {
	if err := mgr.AddReadyzCheck("readyz", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	var role *roletracker.RoleTracker
	preemptions, formatter := preemptexpectations.New(), resources.NewResourceFormatter()
	cache := schdcache.New(mgr.GetClient(), schdcache.WithResourceFormatter(formatter))
	requeuer := qcache.NewRequeuer()
	if err := mgr.Add(requeuer); err != nil {
		return err
	}
	queues := qcache.NewManager(mgr.GetClient(), cache, requeuer, qcache.WithPreemptionExpectations(preemptions),
		qcache.WithResourceFormatter(formatter))
	frameworks := sets.New("batch/job")
	for _, index := range []func() error{
		func() error { return indexer.Setup(ctx, mgr.GetFieldIndexer()) },
		func() error { return tasindexer.SetupIndexes(ctx, mgr.GetFieldIndexer()) },
		func() error { return multikueue.SetupIndexer(ctx, mgr.GetFieldIndexer(), *cfg.Namespace) },
		func() error {
			return jobframework.SetupIndexes(ctx, mgr.GetFieldIndexer(),
				jobframework.WithEnabledFrameworks(sets.List(frameworks)))
		},
	} {
		if err := index(); err != nil {
			return fmt.Errorf("creating the indexes: %w", err)
		}
	}
	client, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return err
	}
	version := kubeversion.NewServerVersionFetcher(client)
	if err := version.FetchServerVersion(); err != nil {
		return fmt.Errorf("getting the version of Kubernetes: %w", err)
	}
	if failed, err := core.SetupControllers(mgr, queues, cache, cfg, core.SetupControllersOpts{
		PreemptionExpectations: preemptions, ResourceFormatter: formatter,
	}); err != nil {
		return fmt.Errorf("setting up the controller of %s: %w", failed, err)
	}
	adapters, err := jobframework.GetMultiKueueAdapters(frameworks)
	if err != nil {
		return fmt.Errorf("getting the adapters of MultiKueue: %w", err)
	}
	if err := multikueue.SetupControllers(mgr, *cfg.Namespace, multikueue.WithAdapters(adapters)); err != nil {
		return fmt.Errorf("setting up MultiKueue: %w", err)
	}
	if failed, err := tas.SetupControllers(mgr, queues, cache, cfg, role); err != nil {
		return fmt.Errorf("setting up the topology controller %s: %w", failed, err)
	}
	if err := jobframework.SetupControllers(ctx, mgr, ctrl.Log,
		jobframework.WithManageJobsWithoutQueueName(cfg.ManageJobsWithoutQueueName),
		jobframework.WithWaitForPodsReady(cfg.WaitForPodsReady),
		jobframework.WithKubeServerVersion(version),
		jobframework.WithEnabledFrameworks(sets.List(frameworks)),
		jobframework.WithManagerName(constants.KueueName),
		jobframework.WithCache(cache),
		jobframework.WithQueues(queues),
	); err != nil {
		return fmt.Errorf("setting up the integrations: %w", err)
	}
	if failed, err := webhooks.Setup(mgr, role); err != nil {
		return fmt.Errorf("setting up the webhook of %s: %w", failed, err)
	}
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	return mgr.Add(scheduler.New(queues, cache, mgr.GetClient(), mgr.GetEventRecorder(constants.AdmissionName),
		scheduler.WithPreemptionExpectations(preemptions), scheduler.WithResourceFormatter(formatter)))
}
