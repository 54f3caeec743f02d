package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
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
	case scheduler == gang.SchedulerYuniKorn:
		return errors.New("--scheduler: YuniKorn cannot be the default, because each gang needs its own task groups")
	}
	return nil
}

// names returns the names of the schedulers in the cluster.
func (o *schedulerOptions) names() gang.SchedulerNames {
	return gang.SchedulerNames{Coscheduling: o.coschedulingName, Volcano: o.volcanoName, KAI: o.kaiName}
}

// queueObjects identifies the objects of Kueue next to those of the schedulers.
const queueObjects gang.Scheduler = "kueue"

// gangObjects are the objects that Rollcall creates for a scheduler or a queue.
type gangObjects struct {
	name string
	// permitted is true if Rollcall may create them. permission is the value of the chart.
	permitted  bool
	permission string
	resource   string
	versions   []schema.GroupVersion
	// missing is why gangs cannot use them if the API server serves none of the versions.
	missing string
}

// schedulerFacts knows which schedulers and queues can place gangs. It discovers the objects that the API server
// serves, at its start and then in intervals, because an administrator can install a scheduler at any time.
type schedulerFacts struct {
	client  discovery.ServerResourcesInterface
	objects map[gang.Scheduler]gangObjects
	// problems contains the last answers of find by scheduler.
	problems sync.Map
}

// discoveryInterval is the interval at which the objects are discovered. A discovery has a request for each version.
const discoveryInterval = 30 * time.Second

func newSchedulerFacts(client discovery.ServerResourcesInterface, o schedulerOptions) *schedulerFacts {
	objects := map[gang.Scheduler]gangObjects{queueObjects: {
		name: "Workloads of Kueue", permitted: o.kueueWorkloads, permission: "permissions.createKueueWorkloads",
		resource: kueue.Resource, versions: []schema.GroupVersion{kueue.Version},
		missing: fmt.Sprintf("the API server does not serve %s of %s, which requires Kueue 0.15 or later",
			kueue.Resource, kueue.Version),
	}}
	for _, name := range gang.Schedulers() {
		if scheduler := scheduling.Find(name); scheduling.HasPodGroups(name) {
			objects[name] = gangObjects{
				name: "PodGroups", permitted: o.podGroups, permission: "permissions.createPodGroups",
				resource: scheduling.Resource, versions: scheduler.Versions(), missing: scheduling.DescribeMissing(scheduler),
			}
		}
	}
	return &schedulerFacts{client: client, objects: objects}
}

// Start discovers the objects until ctx is done.
func (f *schedulerFacts) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, f.discover, discoveryInterval)
	return nil
}

// discover updates the answers. An answer stays if its discovery fails.
func (f *schedulerFacts) discover(ctx context.Context) {
	for scheduler, o := range f.objects {
		if !o.permitted {
			continue
		}
		served, err := f.isServed(o)
		switch {
		case err != nil:
			log.FromContext(ctx).Error(err, "Failed to discover "+o.name, "scheduler", scheduler)
		case served:
			f.problems.Store(scheduler, "")
		default:
			f.problems.Store(scheduler, o.missing)
		}
	}
}

// isServed reports whether the API server serves objects in one of their versions.
func (f *schedulerFacts) isServed(o gangObjects) (bool, error) {
	isResource := func(r metav1.APIResource) bool { return r.Name == o.resource }
	for _, version := range o.versions {
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

// find returns why the cluster cannot place gangs by a scheduler, or by [queueObjects]; empty if it can.
func (f *schedulerFacts) find(scheduler gang.Scheduler) string {
	o := f.objects[scheduler]
	if !o.permitted {
		return fmt.Sprintf("Rollcall does not create %s in this cluster; an administrator can set the value %s of the chart",
			o.name, o.permission)
	}
	problem, isKnown := f.problems.Load(scheduler)
	if !isKnown {
		return fmt.Sprintf("Rollcall has not discovered yet whether the API server serves %s; try again", o.name)
	}
	return problem.(string)
}
