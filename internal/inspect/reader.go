package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/roster/cluster"
)

// defaultMaxEvents is the default of [Reader.MaxEvents].
const defaultMaxEvents = 10

// Reasons of the Events that report the creation and the deletion of a pod. They are omitted: an attempt has as many of
// them as pods, and its ranks show the pods anyway.
const (
	reasonPodCreated = "SuccessfulCreate"
	reasonPodDeleted = "SuccessfulDelete"
)

// Reader reads gangs from a cluster with the permissions of its client. It must be allowed to list
// Jobs, StatefulSets and pods. Events are optional. A Reader is safe for concurrent use.
type Reader struct {
	// Client is the connection to the API server.
	Client kubernetes.Interface
	// Engine parses workloads. It must have the frameworks of the webhook that admitted them.
	Engine *injectors.Engine
	// Namespace is the namespace of the gangs. Empty means all namespaces, which only
	// [Reader.ListGangs], and [Reader.Watch] without a name, support.
	Namespace string
	// MaxEvents is the maximum number of Events of a gang. The latest are kept. 0 means 10.
	MaxEvents int
	// LogInterval is the time after which [Reader.Watch] repeats its call for a gang whose log shows its progress, and
	// with LogRank, although nothing else has changed; 0 for never.
	LogInterval time.Duration
	// LogRank is the rank whose log [Reader.AddDetails] reads; nil for none.
	LogRank *int32
}

// ListGangs returns all gangs, ordered by namespace and name. They have no ranks and no Events.
func (r Reader) ListGangs(ctx context.Context) ([]Gang, error) {
	workloads, err := cluster.ListWorkloads(ctx, r.Client, r.Namespace)
	return buildGangs(listGroups(r.Engine, workloads)), err
}

// GetGang returns one gang with its ranks. The name is that of the gang or of one of its workloads. If several gangs
// have the name, GetGang returns the latest and adds a warning.
func (r Reader) GetGang(ctx context.Context, name string) (Gang, error) {
	workloads, err := cluster.ListWorkloads(ctx, r.Client, r.Namespace)
	if err != nil {
		return Gang{}, err
	}
	group, ok := selectGang(listGroups(r.Engine, workloads), name)
	if !ok {
		return Gang{}, r.newNotFoundError(workloads, name)
	}
	options := metav1.ListOptions{LabelSelector: podSelector(group.Name)}
	pods, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx, options)
	if err != nil {
		return Gang{}, fmt.Errorf("listing pods of gang %s: %w", group.Name, err)
	}
	return group.buildGangWithRanks(pods.Items), nil
}

// newNotFoundError returns the error for a gang that does not exist. It names the gangs of the namespace.
func (r Reader) newNotFoundError(workloads []gang.Workload, name string) error {
	var others []string
	for _, group := range listGroups(r.Engine, workloads) {
		if !slices.Contains(others, group.Name) {
			others = append(others, group.Name)
		}
	}
	if len(others) == 0 {
		return fmt.Errorf("gang %q not found: namespace %s has no Job or StatefulSet with the label %s",
			name, r.Namespace, gang.LabelFramework)
	}
	return fmt.Errorf("gang %q not found in namespace %s; existing gangs: %s",
		name, r.Namespace, gang.SummarizeNames(others, 10))
}

// podSelector returns the label selector of the pods of a gang.
func podSelector(gangName string) string { return gang.LabelGang + "=" + gangName }

// AddDetails sets the Events, the progress and the end of the log of [Reader.LogRank]. They only explain the other
// fields, so AddDetails adds a warning instead of an error for what the user must not read.
func (r Reader) AddDetails(ctx context.Context, g *Gang) {
	r.addEvents(ctx, g)
	r.addProgress(ctx, g)
	r.addLogTail(ctx, g)
}

// addEvents sets the latest Events of the members.
func (r Reader) addEvents(ctx context.Context, g *Gang) {
	var events []Event
	for _, m := range g.Members {
		if m.uid == "" { // the workload does not exist
			continue
		}
		// The API server stores Events of both API groups as the same objects, and core/v1 is the
		// group that has a field selector for the object.
		list, err := r.Client.CoreV1().Events(r.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", m.uid).String()})
		if err != nil {
			warning := "Events could not be read: " + err.Error()
			if apierrors.IsForbidden(err) {
				warning = "Events are not shown: you are not allowed to list them in this namespace"
			}
			g.Warnings = append(g.Warnings, warning)
			return
		}
		for i := range list.Items {
			if reason := list.Items[i].Reason; reason != reasonPodCreated && reason != reasonPodDeleted {
				events = append(events, convertEvent(&list.Items[i]))
			}
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Object, b.Object))
	})
	g.Events = events[max(0, len(events)-cmp.Or(r.MaxEvents, defaultMaxEvents)):]
}

// convertEvent converts an Event of either API group. Writers of events.k8s.io/v1 set eventTime and
// series, writers of core/v1 set firstTimestamp, lastTimestamp and count.
func convertEvent(e *corev1.Event) Event {
	out := Event{
		Type:    e.Type,
		Reason:  e.Reason,
		Object:  e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name,
		Message: e.Message,
		Count:   e.Count,
	}
	if series := e.Series; series != nil {
		out.Time, out.Count = series.LastObservedTime.Time, series.Count
	}
	out.Time = cmp.Or(out.Time,
		e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time)
	return out
}
