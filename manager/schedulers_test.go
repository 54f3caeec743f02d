package manager

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"rollcall.training/gang"
)

// servedGroups serves PodGroups in the versions that it contains. All requests fail with err if it is set.
type servedGroups struct {
	discovery.ServerResourcesInterface
	versions map[string]bool
	err      error
}

func (s *servedGroups) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	if s.err != nil {
		return nil, s.err
	}
	if !s.versions[version] {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "podgroups"}, {Name: "workloads"}}}, nil
}

func TestSchedulerFacts(t *testing.T) {
	served := &servedGroups{versions: map[string]bool{"scheduling.k8s.io/v1alpha2": true}}
	facts := &schedulerFacts{client: served, permitted: true}
	check := func(state string, scheduler gang.Scheduler, want string) {
		t.Helper()
		got := facts.find(scheduler)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s has the problem %q, want %q", state, scheduler, got, want)
		}
	}
	check("before the discovery", gang.SchedulerNative, "try again")
	facts.discover(t.Context())
	check("with the older version", gang.SchedulerNative, "")
	check("without Volcano", gang.SchedulerVolcano, "does not serve podgroups.scheduling.volcano.sh")
	served.versions["scheduling.volcano.sh/v1beta1"] = true
	facts.discover(t.Context())
	check("after its installation", gang.SchedulerVolcano, "")
	served.err = errors.New("the API server is not available")
	facts.discover(t.Context())
	check("while the discovery fails", gang.SchedulerVolcano, "")
	check("while the discovery fails", gang.SchedulerCoscheduling, "does not serve")
	facts.permitted = false
	check("without permission", gang.SchedulerVolcano, "permissions.createPodGroups")
}

func TestQueueFacts(t *testing.T) {
	served := &servedGroups{versions: map[string]bool{"kueue.x-k8s.io/v1beta1": true}}
	facts := &schedulerFacts{client: served}
	check := func(state, want string) {
		t.Helper()
		if got := facts.findQueue(); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: the problem is %q, want %q", state, got, want)
		}
	}
	check("without permission", "permissions.createKueueWorkloads")
	facts.queuesPermitted = true
	check("before the discovery", "try again")
	facts.discoverQueue(t.Context())
	check("with an old Kueue", "requires Kueue 0.15")
	served.versions["kueue.x-k8s.io/v1beta2"] = true
	facts.discoverQueue(t.Context())
	check("with Kueue", "")
	served.err = errors.New("the API server is not available")
	facts.discoverQueue(t.Context())
	check("while the discovery fails", "")
}
