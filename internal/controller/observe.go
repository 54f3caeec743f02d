package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/lifecycle"
)

// observe reads the pods of a gang, and sets what they and the workloads show about it in a state.
func (r *Reconciler) observe(ctx context.Context, g *observedGang, state lifecycle.State) error {
	if err := r.observeQueue(ctx, g); err != nil {
		return err
	}
	e := lifecycle.Evidence{Members: g.memberStates, Now: r.Clock.Now()}
	if err := r.observeIsolation(ctx, g, state, e.Now); err != nil {
		return err
	}
	e.IgnoresOverduePods = g.ignoresOverduePods
	s := g.pass.session
	var parsed []*member
	for i := range g.Members {
		m := &g.Members[i]
		if m.Result == nil {
			continue
		}
		pods, err := r.listPods(ctx, m.Meta().Namespace, m.Meta().UID)
		if err != nil {
			return err
		}
		holder, err := r.findNameHolder(ctx, m.Workload, pods)
		if err != nil {
			return err
		}
		parsed = append(parsed, m)
		e.Workloads = append(e.Workloads, lifecycle.WorkloadEvidence{
			Workload: m.Workload, Gang: m.Result.Gang, Pods: pods, NameHolder: holder,
			InjectedReplicas: readInjectedReplicas(m.Workload), ResizeOverdue: s.isResizeOverdue(m.Workload, e.Now),
			ProbedContainers: findProbedContainers(m.Workload, m.Result.Gang.StallRules),
		})
	}
	e.RankLog = r.observeRankLog(ctx, g, state, e.Workloads)
	var err error
	if e.Orphans, err = r.listOrphans(ctx, g, state); err != nil {
		return err
	}
	g.observed = state.Observe(e, &s.memory)
	g.memberStates = g.observed.Members
	for i, m := range parsed {
		m.observed = g.observed.Workloads[i]
	}
	g.pass.podCount += g.observed.PodCount
	if next := g.observed.NextCheckTime; !next.IsZero() {
		g.pass.requeueAfter(next.Sub(e.Now))
	}
	return nil
}

// findNameHolder returns the terminating pod that blocks the first rank of a StatefulSet that has no pod; nil if there
// is none. It has the name of that rank and another owner, such as a deleted StatefulSet of the same name. The cache
// contains only pods of gangs.
func (r *Reconciler) findNameHolder(ctx context.Context, w gang.Workload, pods []corev1.Pod) (*corev1.Pod, error) {
	if w.StatefulSet == nil {
		return nil, nil
	}
	hasPod := sets.Set[int32]{}
	for i := range pods {
		hasPod.Insert(gang.PodIndex(&pods[i]))
	}
	first := int32(0)
	for hasPod.Has(first) {
		first++
	}
	if first >= w.Ranks() {
		return nil, nil
	}
	pod, name := &corev1.Pod{}, fmt.Sprintf("%s-%d", w.Meta().Name, first)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: w.Meta().Namespace, Name: name}, pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the pod %s: %w", name, err)
	case pod.DeletionTimestamp == nil || metav1.IsControlledBy(pod, w.Meta()):
		return nil, nil
	}
	return pod, nil
}

// isCacheCurrent reports whether the API server has the same versions of all members as the cache.
// Otherwise it schedules another pass.
func (r *Reconciler) isCacheCurrent(ctx context.Context, g *observedGang) bool {
	for _, m := range g.Members {
		switch _, err := r.readWhole(ctx, m); {
		case errors.Is(err, errChildChanging) || apierrors.IsNotFound(err):
			g.pass.requeueAfter(lifecycle.StaleCacheDelay)
			return false
		case err != nil:
			g.pass.handleError(err)
			return false
		}
	}
	return true
}

// readInjectedReplicas returns the size with which the ranks of a StatefulSet are configured; nil if it is not known.
func readInjectedReplicas(w gang.Workload) *int32 {
	record, err := injection.ReadRecord(w)
	if w.StatefulSet == nil || err != nil || record == nil {
		return nil
	}
	return &record.Replicas
}

// findProbedContainers returns the containers whose readiness shows whether they make progress. The probes of users are
// not in the record.
func findProbedContainers(w gang.Workload, rules gang.StallRules) []string {
	record, err := injection.ReadRecord(w)
	if rules.Action != gang.StallReport || err != nil {
		return nil
	}
	var names []string
	for name := range record.ByName(injection.KindProbe) {
		container, _, _ := strings.Cut(name, "/")
		names = append(names, container)
	}
	return names
}

// listOrphans lists the pods of deleted members of a gang that restarts. They have the names and the addresses of
// ranks of the gang until they have terminated. Pods of another workload that exists are not orphans, nor are those of
// a workload with another name: everybody can create such pods.
func (r *Reconciler) listOrphans(ctx context.Context, g *observedGang, state lifecycle.State) ([]corev1.Pod, error) {
	if !g.multiWorkload || state.Phase != lifecycle.Restarting {
		return nil, nil
	}
	existing := listUIDs(slices.Concat(g.Members, g.Strangers, g.EarlierRun))
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(g.pass.request.Namespace),
		client.MatchingLabels{gang.LabelGang: g.pass.request.Gang})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of deleted members: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || slices.Contains(existing, owner.UID) || !g.hasMemberName(owner)
	}), nil
}

// hasMemberName reports whether an owner of pods has the kind of a workload and the name of a member.
func (g *observedGang) hasMemberName(owner *metav1.OwnerReference) bool {
	isWorkload := owner.Kind == string(gang.Job) || owner.Kind == string(gang.StatefulSet)
	return isWorkload && slices.ContainsFunc(g.memberStates, func(s lifecycle.MemberState) bool {
		return s.WorkloadName == owner.Name
	})
}
