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
	served := &servedGroups{versions: map[string]bool{
		"scheduling.k8s.io/v1alpha2": true, "kueue.x-k8s.io/v1beta1": true,
	}}
	facts := newSchedulerFacts(served, schedulerOptions{podGroups: true, kueueWorkloads: true})
	check := func(state string, scheduler gang.Scheduler, want string) {
		t.Helper()
		got := facts.find(scheduler)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s has the problem %q, want %q", state, scheduler, got, want)
		}
	}
	check("before the discovery", gang.SchedulerNative, "try again")
	check("before the discovery", queueObjects, "try again")
	facts.discover(t.Context())
	check("with the older version", gang.SchedulerNative, "")
	check("without Volcano", gang.SchedulerVolcano, "does not serve podgroups.scheduling.volcano.sh")
	check("with an old Kueue", queueObjects, "requires Kueue 0.15")
	served.versions["scheduling.volcano.sh/v1beta1"], served.versions["kueue.x-k8s.io/v1beta2"] = true, true
	facts.discover(t.Context())
	check("after its installation", gang.SchedulerVolcano, "")
	check("after its installation", queueObjects, "")
	served.err = errors.New("the API server is not available")
	facts.discover(t.Context())
	check("while the discovery fails", gang.SchedulerVolcano, "")
	check("while the discovery fails", gang.SchedulerCoscheduling, "does not serve")
	check("while the discovery fails", queueObjects, "")
	facts = newSchedulerFacts(served, schedulerOptions{})
	check("without permission", gang.SchedulerVolcano, "permissions.createPodGroups")
	check("without permission", queueObjects, "permissions.createKueueWorkloads")
}
