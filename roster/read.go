package roster

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
)

// maxEvents is how many Events of a gang are kept, the latest.
const maxEvents = 10

// podCreated is the reason of the Events that tell of each pod's creation. They would
// drive out all others, and the ranks show their pods.
const podCreated = "SuccessfulCreate"

// Reader reads gangs from a cluster, with the rights of its user: to list Jobs,
// StatefulSets and pods. Events are read where that is allowed too.
type Reader struct {
	// Client asks the API server.
	Client kubernetes.Interface
	// Namespace is where to look; empty means in all, which [Reader.Gangs] alone can.
	Namespace string
}

// engine reads workloads as the webhook did.
var engine = injectors.New(injectors.Builtin(), gang.Config{})

// ErrNoGang says that there is no such gang, and what there is instead.
type ErrNoGang struct {
	Name, Namespace string
	// Others are the names of the gangs of the namespace.
	Others []string
}

func (e *ErrNoGang) Error() string {
	if len(e.Others) == 0 {
		return fmt.Sprintf("no gang %q: the namespace %s has no Job or StatefulSet with the label %s", e.Name, e.Namespace, gang.LabelFramework)
	}
	return fmt.Sprintf("no gang %q in the namespace %s; there are %s", e.Name, e.Namespace, few(e.Others, 10))
}

// Gangs reads all gangs, without their ranks, ordered by namespace and name.
func (r Reader) Gangs(ctx context.Context) ([]Gang, error) {
	found, err := r.workloads(ctx)
	if err != nil {
		return nil, err
	}
	var out []Gang
	for _, p := range parties(engine, found) {
		out = append(out, p.gang())
	}
	return out, nil
}

// Gang reads one gang with its ranks and Events, by its name or that of one of its
// workloads. The error is an [*ErrNoGang] when there is none.
func (r Reader) Gang(ctx context.Context, name string) (Gang, error) {
	g, err := r.gang(ctx, name)
	if err == nil {
		r.Events(ctx, &g)
	}
	return g, err
}

func (r Reader) gang(ctx context.Context, name string) (Gang, error) {
	found, err := r.workloads(ctx)
	if err != nil {
		return Gang{}, err
	}
	p, notes, ok := find(parties(engine, found), name)
	if !ok {
		return Gang{}, r.none(found, name)
	}
	pods, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: podsOf(p.name)})
	if err != nil {
		return Gang{}, fmt.Errorf("listing the pods of the gang %s: %w", p.name, err)
	}
	g := p.gang()
	g.withRanks(pods.Items)
	g.Notes = notes
	return g, nil
}

func (r Reader) none(found []gang.Workload, name string) error {
	err := &ErrNoGang{Name: name, Namespace: r.Namespace}
	for _, p := range parties(engine, found) {
		if !slices.Contains(err.Others, p.name) {
			err.Others = append(err.Others, p.name)
		}
	}
	return err
}

// workloads lists those that carry the label.
func (r Reader) workloads(ctx context.Context) ([]gang.Workload, error) {
	labelled := metav1.ListOptions{LabelSelector: gang.LabelFramework}
	jobs, err := r.Client.BatchV1().Jobs(r.Namespace).List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("listing Jobs: %w", err)
	}
	sets, err := r.Client.AppsV1().StatefulSets(r.Namespace).List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("listing StatefulSets: %w", err)
	}
	var out []gang.Workload
	for i := range jobs.Items {
		out = append(out, gang.Workload{Job: &jobs.Items[i]})
	}
	for i := range sets.Items {
		out = append(out, gang.Workload{StatefulSet: &sets.Items[i]})
	}
	return out, nil
}

func podsOf(name string) string { return gang.LabelGang + "=" + name }

// Events adds the latest Events of the members. They explain, and no more: what
// cannot be read is noted.
func (r Reader) Events(ctx context.Context, g *Gang) {
	var all []Event
	for _, m := range g.Members {
		if m.Missing {
			continue
		}
		// Events of both APIs are kept as one, and core/v1 alone selects by object.
		list, err := r.Client.CoreV1().Events(r.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", m.uid).String()})
		if err != nil {
			note := "Events could not be read: " + err.Error()
			if apierrors.IsForbidden(err) {
				note = "Events are not shown: you may not list them in this namespace"
			}
			g.Notes = append(g.Notes, note)
			return
		}
		for i := range list.Items {
			if list.Items[i].Reason == podCreated {
				continue
			}
			all = append(all, eventOf(&list.Items[i]))
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Object, b.Object)) })
	g.Events = all[max(0, len(all)-maxEvents):]
}

// eventOf reads an Event, whichever of the two APIs it was written by.
func eventOf(e *corev1.Event) Event {
	out := Event{Type: e.Type, Reason: e.Reason, Message: e.Message, Count: e.Count,
		Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name}
	times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time}
	if s := e.Series; s != nil {
		times, out.Count = append([]time.Time{s.LastObservedTime.Time}, times...), s.Count
	}
	for _, t := range times {
		if !t.IsZero() {
			out.At = t
			break
		}
	}
	return out
}
