package simulation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/test/simulation/traces"
)

// TestTraces compares the stand-ins with the recorded traces of a real cluster.
func TestTraces(t *testing.T) {
	recorded, err := traces.Recorded("latest")
	if err != nil {
		t.Fatal(err)
	}
	if len(recorded) != len(traces.Scripts) {
		t.Errorf("%d scripts are recorded, want %d", len(recorded), len(traces.Scripts))
	}
	for _, script := range traces.Scripts {
		t.Run(script.Name, func(t *testing.T) {
			got, err := traces.Run(newStandIns(), script, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := traces.Diff(recorded[script.Name], got); diff != "" {
				t.Errorf("the stand-ins differ from the recorded cluster:\n%s", diff)
			}
		})
	}
}

// standIns implements traces.Cluster with calm streams. Nobody but the script writes as a kubelet.
type standIns struct {
	*simulation
	// other is the node of pods that are created after the node was lost.
	node, other *node
	changes     []traces.Change
}

func newStandIns() *standIns {
	w := newWorld(Scenario{Seed: 1, Calm: []string{"*"}})
	s := &standIns{simulation: &simulation{world: w, api: newAPI(w), deleted: map[string]bool{}}}
	s.oracle = newOracle(s.simulation)
	s.programs = &programs{world: w, oracle: s.oracle, ended: map[types.UID]time.Time{}}
	s.node = &node{world: w, api: s.api, name: "node-0"}
	newJobController(s.api)
	newStatefulSetController(s.api)
	s.other = &node{world: w, api: s.api, name: "node-1", lost: true}
	newScheduler(s.api, []*node{s.node, s.other})
	s.collectGarbage()
	s.api.written = append(s.api.written, func(before, after client.Object) {
		s.changes = append(s.changes, traces.Change{Before: before, After: after})
	})
	return s
}

func (s *standIns) Now() time.Time { return s.now }

func (s *standIns) Create(o client.Object) error {
	_, err := s.api.create(o)
	return err
}

func (s *standIns) Update(o client.Object, subresource string, change func(client.Object)) error {
	current, err := s.api.get(kindOf(o), o.GetName())
	if err != nil {
		return err
	}
	change(current)
	_, err = s.api.update(current, subresource)
	return err
}

func (s *standIns) Delete(o client.Object, force bool) error {
	return s.api.delete(kindOf(o), o.GetName(), deleteOptions{uid: o.GetUID(), force: force})
}

func (s *standIns) Evict(pod *corev1.Pod) error {
	evict(s.api, pod, "EvictionByEvictionAPI")
	return nil
}

func (s *standIns) LoseNode() error {
	s.node.lose()
	s.other.lost = false
	return nil
}

func (s *standIns) RemoveNode() error {
	s.node.remove()
	return nil
}

// Settle runs the world for longer than all delays after a failure and all tolerations together.
func (s *standIns) Settle(func() bool) error {
	s.runUntil(s.now.Add(5 * time.Minute))
	return nil
}

func (s *standIns) Changes() []traces.Change {
	out := s.changes
	s.changes = nil
	return out
}
