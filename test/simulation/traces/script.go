package traces

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// Cluster is where a script runs: a real cluster or stand-ins. Objects are identified by type, name and UID, in
// one namespace.
type Cluster interface {
	// Now returns the time of the cluster.
	Now() time.Time
	// Create creates a workload. Its pods run on a node, unless they have a node selector.
	Create(o client.Object) error
	// Update gets an object, changes it, and writes it or, with the subresource "status", its status.
	Update(o client.Object, subresource string, change func(client.Object)) error
	// Delete deletes an object, a pod with its grace period unless force is true.
	Delete(o client.Object, force bool) error
	// Evict evicts a pod through the eviction API.
	Evict(pod *corev1.Pod) error
	// LoseNode disconnects the node, and RemoveNode deletes it.
	LoseNode() error
	RemoveNode() error
	// Settle waits until the controllers are idle. isExpected reports whether the recorded changes have happened; it
	// is nil while a script is recorded.
	Settle(isExpected func() bool) error
	// Changes returns the changes of the workload and its pods since the last call, in the order in which the API
	// server stored them.
	Changes() []Change
}

// Change is a change of an object. Before is nil for a creation, After for a deletion.
type Change struct{ Before, After client.Object }

// Script is what happens to one workload.
type Script struct {
	Name     string
	Workload client.Object
	Steps    []Step
}

// Step is a request, or several requests of the same kind.
type Step struct {
	Name string
	do   func(*run) error
}

// Record is what a step caused.
type Record struct {
	Step    string   `json:"step"`
	Error   string   `json:"error,omitempty"`
	Changes []string `json:"changes,omitempty"`
}

// run is a run of a script.
type run struct {
	Cluster
	// workload and pods are the objects as the last change left them, without those that are gone.
	workload client.Object
	pods     map[types.UID]*corev1.Pod
	// names are the names of pods in the record: index and number.
	names   map[types.UID]string
	created map[int32]int
	// status is the status before the step, and pending are the changes of the step.
	status  status
	pending []Change
}

// Run runs a script and returns a record of each step. expected contains the recorded steps; without it, the
// cluster waits longer before it is idle.
func Run(c Cluster, s Script, expected []Record) ([]Record, error) {
	r := &run{Cluster: c, pods: map[types.UID]*corev1.Pod{}, names: map[types.UID]string{}, created: map[int32]int{}}
	steps := append([]Step{{Name: "the workload is created", do: func(r *run) error { return r.Create(s.Workload) }}},
		s.Steps...)
	var out []Record
	for i, step := range steps {
		r.status, r.pending = r.lastStatus(), nil
		record := Record{Step: step.Name, Error: reasonOf(step.do(r))}
		var isExpected func() bool
		if i < len(expected) {
			isExpected = func() bool {
				r.observe()
				return slices.Equal(r.describeChanges(), expected[i].Changes)
			}
		}
		if err := r.Settle(isExpected); err != nil {
			return out, fmt.Errorf("step %d, %s: %w", i, step.Name, err)
		}
		r.observe()
		record.Changes = r.describeChanges()
		out = append(out, record)
	}
	return out, nil
}

// reasonOf returns the reason of an error of the API server.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	return err.Error()
}

// observe applies new changes to the state.
func (r *run) observe() {
	for _, c := range r.Changes() {
		r.pending = append(r.pending, c)
		o := c.After
		if o == nil {
			o = c.Before
		}
		pod, isPod := o.(*corev1.Pod)
		switch {
		case !isPod && (c.After != nil || r.workload != nil && r.workload.GetUID() == o.GetUID()):
			r.workload = c.After
		case isPod && c.After == nil:
			delete(r.pods, pod.UID)
		case isPod:
			r.pods[pod.UID] = pod
			if index := gang.PodIndex(pod); r.names[pod.UID] == "" {
				r.created[index]++
				r.names[pod.UID] = fmt.Sprintf("%d/%d", index, r.created[index])
			}
		}
	}
}

// pod returns the newest pod of an index.
func (r *run) pod(index int32) (*corev1.Pod, error) {
	r.observe()
	name := fmt.Sprintf("%d/%d", index, r.created[index])
	for uid, pod := range r.pods {
		if r.names[uid] == name {
			return pod, nil
		}
	}
	return nil, apierrors.NewNotFound(batchv1.Resource("pods"), name)
}
