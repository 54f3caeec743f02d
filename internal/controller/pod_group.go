package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/scheduling"
)

// podGroupSync is what a process knows about the PodGroup of a gang. PodGroups are not watched, which keeps the cache
// small. The zero value means that the PodGroup was not read.
type podGroupSync struct {
	// written is the content that was last read or written, and attempt the attempt of the gang at this time.
	written scheduling.Group
	attempt int32
	// owners are the UIDs of the members that own the PodGroup.
	owners []types.UID
	// checkTime is when the PodGroup was last read; zero if it must be read.
	checkTime time.Time
	// problem describes why the gang has no PodGroup; empty if it has.
	problem string
	// isDeleted is true if the PodGroup was deleted because the gang has no pods.
	isDeleted bool
}

// ensurePodGroup creates or updates the PodGroup of a gang whose workloads all exist. It deletes a PodGroup that
// reserves resources while the gang is suspended, and after it finished.
func (r *Reconciler) ensurePodGroup(ctx context.Context, g *observedGang, next lifecycle.State) error {
	scheduler, want := g.desiredPodGroup()
	if scheduler == nil || len(g.memberStates.Missing()) > 0 {
		return nil
	}
	s, now := &g.pass.session.podGroup, r.Clock.Now()
	if next.Phase.Terminal() || next.Phase == lifecycle.Suspended {
		if scheduler.ReservesWithoutPods() {
			return r.deletePodGroup(ctx, g, scheduler, want)
		}
		if next.Phase.Terminal() {
			return nil
		}
	}
	dueTime, isDue := s.nextCheck(g, next, want)
	if isDue && now.Before(dueTime) {
		g.pass.requeueAfter(dueTime.Sub(now))
		isDue = false
	}
	if isDue {
		s.checkTime, s.problem, s.isDeleted = now, "", false
		if err := r.syncPodGroup(ctx, g, scheduler, want); err != nil {
			s.checkTime = time.Time{}
			return err
		}
		s.attempt = next.Attempt
	}
	if s.problem != "" {
		g.childProblem = lifecycle.Status{Reason: gang.ReasonPodGroupMissing, Message: s.problem}
	}
	return nil
}

// nextCheck returns when the PodGroup is read or written again, and false if only another event causes that. While
// pods wait for their nodes, somebody may have deleted it.
func (s *podGroupSync) nextCheck(g *observedGang, next lifecycle.State, want scheduling.Group) (time.Time, bool) {
	interval := retryInterval(s.checkTime.Sub(g.primaryMember().Meta().CreationTimestamp.Time))
	switch {
	case s.checkTime.IsZero():
		return time.Time{}, true
	case s.problem != "":
		return s.checkTime.Add(obstacleRetryInterval), true
	case s.attempt != next.Attempt || s.needsWrite(g, want):
		return time.Time{}, true
	case g.observed.Placement.Unbound > 0:
		return s.checkTime.Add(interval), true
	}
	return time.Time{}, false
}

// needsWrite reports whether the PodGroup differs from want. A PodGroup for more pods than the gang still has is
// changed only if a pod waits for its node, so that ranks that complete cost no writes.
func (s *podGroupSync) needsWrite(g *observedGang, want scheduling.Group) bool {
	if s.written.MinCount > want.MinCount && g.observed.Placement.Unbound == 0 {
		want.MinCount = s.written.MinCount
	}
	return s.written != want || !slices.Equal(s.owners, g.injectedUIDs())
}

// desiredPodGroup returns the scheduler and the PodGroup of the gang; nil if Rollcall creates none.
func (g *observedGang) desiredPodGroup() (scheduling.Scheduler, scheduling.Group) {
	first := g.firstResult()
	if first == nil || first.Children.PodGroup == "" {
		return nil, scheduling.Group{}
	}
	return scheduling.Find(first.Gang.Placement.Scheduler), scheduling.Group{
		Namespace: first.Gang.Namespace, Name: first.Children.PodGroup,
		MinCount: g.countPodsToPlace(), PriorityClass: first.Gang.Placement.PriorityClass,
		Queue: first.Gang.Placement.Queue, Topology: first.Gang.Placement.Topology,
	}
}

// countPodsToPlace returns the number of pods that need their nodes together, at least 1. Ranks that completed do not
// run again, unless the gang restarts as one. Kubernetes and scheduler-plugins do not count pods that finished
// (kubernetes/kubernetes#142330).
func (g *observedGang) countPodsToPlace() int32 {
	keepsCompletedRanks := g.gangPolicies().RestartPolicy != gang.RestartPolicyGang
	var sum int32
	for _, s := range g.memberStates {
		if s.Observed.HasResult() || !s.Exists {
			continue
		}
		size, minReady := s.Observed.Size, s.MinReady
		if size == 0 { // suspended
			size, minReady = s.Size, s.Size
		}
		if m := g.findMember(s.WorkloadName); keepsCompletedRanks && m != nil && m.Job != nil {
			size -= m.Job.Status.Succeeded
		}
		sum += max(0, min(size, minReady))
	}
	return max(1, sum)
}

// injectedUIDs returns the UIDs of the members that own the children.
func (g *observedGang) injectedUIDs() []types.UID {
	var out []types.UID
	for _, m := range g.Members {
		if m.IsInjected() {
			out = append(out, m.Meta().UID)
		}
	}
	return out
}

// syncPodGroup reads the PodGroup, and creates or updates it. It never changes a PodGroup that Rollcall has not
// created, and records the problem instead.
func (r *Reconciler) syncPodGroup(
	ctx context.Context, g *observedGang, scheduler scheduling.Scheduler, want scheduling.Group,
) error {
	s := &g.pass.session.podGroup
	version, err := r.findPodGroupVersion(scheduler)
	if err != nil {
		return err
	}
	if version.Empty() {
		s.problem = "The pods wait for their PodGroup, and " + scheduling.DescribeMissing(scheduler)
		return nil
	}
	object := scheduling.BuildPodGroup(scheduler, version, want)
	object.SetLabels(g.firstResult().ChildLabels())
	if err := r.setOwners(g, object); err != nil {
		return err
	}
	have, err := r.readPodGroup(ctx, version, want)
	if err != nil {
		return err
	}
	if have == nil {
		if err := r.checkTopology(ctx, s, scheduler, object, want); err != nil || s.problem != "" {
			return err
		}
		if err := r.Client.Create(ctx, object, FieldOwner); apierrors.IsAlreadyExists(err) {
			return errChildChanging
		} else if err != nil {
			return fmt.Errorf("creating the PodGroup %s: %w", want.Name, err)
		}
	} else if err := r.updatePodGroup(ctx, g, scheduler, have, object); err != nil || s.problem != "" {
		return err
	}
	s.written, s.owners = want, g.injectedUIDs()
	return nil
}

// checkTopology records a problem if the API server would drop the topology of a new PodGroup. Without the PodGroup,
// the pods wait.
func (r *Reconciler) checkTopology(
	ctx context.Context, s *podGroupSync, scheduler scheduling.Scheduler, object *unstructured.Unstructured,
	want scheduling.Group,
) error {
	if want.Topology.Level == "" {
		return nil
	}
	answer := object.DeepCopy()
	err := r.Client.Create(ctx, answer, FieldOwner, client.DryRunAll)
	switch {
	case apierrors.IsAlreadyExists(err):
		return errChildChanging
	case err != nil:
		return fmt.Errorf("checking the PodGroup %s: %w", want.Name, err)
	case !scheduling.KeepsTopology(object, answer):
		s.problem = fmt.Sprintf("The pods wait for their PodGroup, and the API server drops the topology %s, "+
			"which requires %s", want.Topology, scheduler.TopologySupport().Requirement)
	}
	return nil
}

// findPodGroupVersion returns the preferred version of the PodGroup that the API server serves; the zero value if it
// serves none.
func (r *Reconciler) findPodGroupVersion(scheduler scheduling.Scheduler) (schema.GroupVersion, error) {
	for _, version := range scheduler.Versions() {
		isServed, err := r.servesKind(schema.GroupKind{Group: version.Group, Kind: scheduling.Kind}, version.Version)
		if isServed || err != nil {
			return version, err
		}
	}
	return schema.GroupVersion{}, nil
}

// readPodGroup returns the PodGroup in the API server; nil if there is none.
func (r *Reconciler) readPodGroup(
	ctx context.Context, version schema.GroupVersion, want scheduling.Group,
) (*unstructured.Unstructured, error) {
	key := client.ObjectKey{Namespace: want.Namespace, Name: want.Name}
	have, err := r.getObject(ctx, version.WithKind(scheduling.Kind), key)
	if have != nil && have.GetDeletionTimestamp() != nil {
		return nil, errChildChanging
	}
	return have, err
}

// updatePodGroup changes the owners of a PodGroup of Rollcall and what the pods need together.
func (r *Reconciler) updatePodGroup(
	ctx context.Context, g *observedGang, scheduler scheduling.Scheduler, have, want *unstructured.Unstructured,
) error {
	if !isChildOf(have, want.GetLabels()[gang.LabelGang]) {
		g.pass.session.podGroup.problem = fmt.Sprintf("The PodGroup %s is not of this gang. "+
			"Delete it, rename the workload, or name the gang with the label %s", have.GetName(), gang.LabelGang)
		return nil
	}
	changed := have.DeepCopy()
	changed.SetOwnerReferences(want.GetOwnerReferences())
	scheduling.RemoveTopology(want)
	if scheduler.CanResize(have.GroupVersionKind().Version) {
		spec, _, _ := unstructured.NestedMap(have.Object, "spec")
		mergeMaps(spec, want.Object["spec"].(map[string]any))
		changed.Object["spec"] = spec
	}
	if equality.Semantic.DeepEqual(have, changed) {
		return nil
	}
	return r.patchChild(ctx, scheduling.Kind, have, changed)
}

// mergeMaps sets the values of from in to, which may be of an object that has further values.
func mergeMaps(to, from map[string]any) {
	for key, value := range from {
		nested, isMap := value.(map[string]any)
		existing, exists := to[key].(map[string]any)
		if isMap && exists {
			mergeMaps(existing, nested)
		} else {
			to[key] = value
		}
	}
}

// deletePodGroup deletes the PodGroup of a gang without pods, if Rollcall created it.
func (r *Reconciler) deletePodGroup(
	ctx context.Context, g *observedGang, scheduler scheduling.Scheduler, want scheduling.Group,
) error {
	s := &g.pass.session.podGroup
	if s.isDeleted {
		return nil
	}
	version, err := r.findPodGroupVersion(scheduler)
	if err != nil || version.Empty() {
		return err
	}
	have, err := r.readPodGroup(ctx, version, want)
	if err != nil {
		return err
	}
	if have != nil && isChildOf(have, g.firstResult().Gang.Name) {
		if err := r.deleteChild(ctx, "PodGroup", have); err != nil {
			return err
		}
	}
	*s = podGroupSync{isDeleted: true}
	return nil
}
