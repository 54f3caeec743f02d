package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/kueue"
	"rollcall.training/internal/scheduling"
)

// schedulerOptions are the values of the flags for the schedulers of gangs.
type schedulerOptions struct {
	scheduler        string
	coschedulingName string
	volcanoName      string
	kaiName          string
	podGroups        bool
	kueueWorkloads   bool
	rankOrder        bool
}

// addFlags adds the flags for the schedulers to f.
func (o *schedulerOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.scheduler, "scheduler", string(gang.SchedulerNone),
		"scheduler of the gangs whose annotation does not name another one: "+
			"none, native, coscheduling, volcano or kai")
	f.StringVar(&o.coschedulingName, "coscheduling-name", "",
		"schedulerName of pods for the plugin Coscheduling (default: users set the name in their pod templates)")
	f.StringVar(&o.volcanoName, "volcano-name", "volcano", "schedulerName of pods for Volcano")
	f.StringVar(&o.kaiName, "kai-name", "kai-scheduler", "schedulerName of pods for KAI")
	f.BoolVar(&o.podGroups, "pod-groups", false, "create PodGroups, for which the controller needs permissions")
	f.BoolVar(&o.kueueWorkloads, "kueue-workloads", false,
		"create one Workload of Kueue for a gang of several workloads, for which the controller needs permissions")
	f.BoolVar(&o.rankOrder, "rank-order", false,
		"order the hosts of launchers by the labels of nodes, for which the controller needs permissions")
}

// validateFlags returns an error that joins a message for each invalid flag.
func (o *schedulerOptions) validateFlags() error {
	scheduler, err := gang.ParseScheduler(o.scheduler)
	switch {
	case err != nil:
		return fmt.Errorf("--scheduler: %w", err)
	case scheduler != gang.SchedulerNone && !o.podGroups:
		return errors.New("--scheduler: requires --pod-groups")
	}
	return nil
}

// names returns the names of the schedulers in the cluster.
func (o *schedulerOptions) names() gang.SchedulerNames {
	return gang.SchedulerNames{Coscheduling: o.coschedulingName, Volcano: o.volcanoName, KAI: o.kaiName}
}

// schedulerFacts knows which schedulers can place gangs. It discovers the PodGroups that the API server serves, at its
// start and then in intervals, because an administrator can install a scheduler at any time.
type schedulerFacts struct {
	client    discovery.ServerResourcesInterface
	permitted bool
	// queuesPermitted is true if Rollcall creates Workloads of Kueue.
	queuesPermitted bool
	// problems contains the answers of find, and queueProblem that of findQueue.
	problems     atomic.Pointer[map[gang.Scheduler]string]
	queueProblem atomic.Pointer[string]
}

// discoveryInterval is the interval at which the PodGroups are discovered. A discovery has a request for each version.
const discoveryInterval = 30 * time.Second

func newSchedulerFacts(config *rest.Config, o schedulerOptions) (*schedulerFacts, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a discovery client: %w", err)
	}
	return &schedulerFacts{client: client, permitted: o.podGroups, queuesPermitted: o.kueueWorkloads}, nil
}

// Start discovers the PodGroups until ctx is done.
func (f *schedulerFacts) Start(ctx context.Context) error {
	for {
		if f.permitted {
			f.discover(ctx)
		}
		if f.queuesPermitted {
			f.discoverQueue(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(discoveryInterval):
		}
	}
}

// discover updates the answers. Those of a scheduler whose discovery fails stay.
func (f *schedulerFacts) discover(ctx context.Context) {
	last, problems := f.problems.Load(), map[gang.Scheduler]string{}
	for _, name := range gang.Schedulers() {
		scheduler := scheduling.Find(name)
		if scheduler == nil {
			continue
		}
		served, err := f.isServed(scheduling.Resource, scheduler.Versions()...)
		switch {
		case err != nil:
			log.FromContext(ctx).Error(err, "Failed to discover PodGroups", "scheduler", name)
			problems[name] = "the API server did not report whether it serves PodGroups of the scheduler"
			if last != nil {
				problems[name] = (*last)[name]
			}
		case !served:
			problems[name] = scheduling.DescribeMissing(scheduler)
		}
	}
	f.problems.Store(&problems)
}

// discoverQueue updates the answer of findQueue. It stays if the discovery fails.
func (f *schedulerFacts) discoverQueue(ctx context.Context) {
	problem := ""
	served, err := f.isServed(kueue.Resource, kueue.Version)
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "Failed to discover Workloads of Kueue")
		return
	case !served:
		problem = fmt.Sprintf("the API server does not serve %s of %s, which requires Kueue 0.15 or later",
			kueue.Resource, kueue.Version)
	}
	f.queueProblem.Store(&problem)
}

// isServed reports whether the API server serves a resource in one of the versions.
func (f *schedulerFacts) isServed(resource string, versions ...schema.GroupVersion) (bool, error) {
	isResource := func(r metav1.APIResource) bool { return r.Name == resource }
	for _, version := range versions {
		list, err := f.client.ServerResourcesForGroupVersion(version.String())
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return false, fmt.Errorf("discovering %s: %w", version, err)
		case slices.ContainsFunc(list.APIResources, isResource):
			return true, nil
		}
	}
	return false, nil
}

// find returns why the cluster cannot place gangs by a scheduler; empty if it can.
func (f *schedulerFacts) find(scheduler gang.Scheduler) string {
	if !f.permitted {
		return "Rollcall does not create PodGroups in this cluster; an administrator can set the value " +
			"permissions.createPodGroups of the chart"
	}
	problems := f.problems.Load()
	if problems == nil {
		return "Rollcall has not discovered yet whether the API server serves PodGroups of the scheduler; try again"
	}
	return (*problems)[scheduler]
}

// findQueue returns why Rollcall cannot create Workloads of Kueue; empty if it can.
func (f *schedulerFacts) findQueue() string {
	if !f.queuesPermitted {
		return "Rollcall does not create Workloads of Kueue in this cluster; an administrator can set the value " +
			"permissions.createKueueWorkloads of the chart"
	}
	problem := f.queueProblem.Load()
	if problem == nil {
		return "Rollcall has not discovered yet whether the API server serves Workloads of Kueue; try again"
	}
	return *problem
}
