package scheduling_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/scheduling"
	"rollcall.training/plan"
)

func TestBuildPodGroup(t *testing.T) {
	group := scheduling.Group{Namespace: "team", Name: "train", MinCount: 4, PriorityClass: "high", Queue: "team-a"}
	for name, test := range map[string]struct {
		scheduler gang.Scheduler
		version   int
		topology  gang.Topology
		want      map[string]any
	}{
		"Kubernetes 1.37": {scheduler: gang.SchedulerNative, want: map[string]any{
			"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(4)}},
			"disruptionMode":   map[string]any{"all": map[string]any{}}, "priorityClassName": "high",
		}},
		"Kubernetes 1.36": {scheduler: gang.SchedulerNative, version: 1, want: map[string]any{
			"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(4)}},
			"disruptionMode":   "PodGroup", "priorityClassName": "high",
		}},
		"Kubernetes with a topology": {
			scheduler: gang.SchedulerNative, topology: gang.Topology{Level: "example.com/rack"},
			want: map[string]any{
				"schedulingPolicy":      map[string]any{"gang": map[string]any{"minCount": int64(4)}},
				"disruptionMode":        map[string]any{"all": map[string]any{}},
				"schedulingConstraints": map[string]any{"topology": []any{map[string]any{"key": "example.com/rack"}}},
				"priorityClassName":     "high",
			},
		},
		"scheduler-plugins": {scheduler: gang.SchedulerCoscheduling, want: map[string]any{"minMember": int64(4)}},
		"Volcano": {scheduler: gang.SchedulerVolcano, want: map[string]any{
			"minMember": int64(4), "priorityClassName": "high",
		}},
		"Volcano with a preferred topology": {
			scheduler: gang.SchedulerVolcano, topology: gang.Topology{Level: "example.com/rack", Preferred: true},
			want: map[string]any{
				"minMember": int64(4), "priorityClassName": "high",
				"networkTopology": map[string]any{"mode": "soft", "highestTierName": "example.com/rack"},
			},
		},
		"Volcano with the number of a tier": {
			scheduler: gang.SchedulerVolcano, topology: gang.Topology{Level: "2"}, want: map[string]any{
				"minMember": int64(4), "priorityClassName": "high",
				"networkTopology": map[string]any{"mode": "hard", "highestTierAllowed": int64(2)},
			},
		},
		"KAI": {scheduler: gang.SchedulerKAI, want: map[string]any{
			"minMember": int64(4), "queue": "team-a", "priorityClassName": "high",
		}},
		"KAI with a topology": {
			scheduler: gang.SchedulerKAI, topology: gang.Topology{Level: "example.com/rack", Object: "network"},
			want: map[string]any{
				"minMember": int64(4), "queue": "team-a", "priorityClassName": "high",
				"topologyConstraint": map[string]any{
					"topology": "network", "requiredTopologyLevel": "example.com/rack",
				},
			},
		},
		"KAI with a preferred topology": {
			scheduler: gang.SchedulerKAI,
			topology:  gang.Topology{Level: "example.com/rack", Object: "network", Preferred: true},
			want: map[string]any{
				"minMember": int64(4), "queue": "team-a", "priorityClassName": "high",
				"topologyConstraint": map[string]any{
					"topology": "network", "preferredTopologyLevel": "example.com/rack",
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := scheduling.Find(test.scheduler)
			version := s.Versions()[test.version]
			group := group
			group.Topology = test.topology
			got := scheduling.BuildPodGroup(s, version, group)
			if diff := cmp.Diff(test.want, got.Object["spec"]); diff != "" {
				t.Errorf("spec: -want, +got:\n%s", diff)
			}
			if got.GetAPIVersion() != version.String() || got.GetNamespace() != "team" || got.GetName() != "train" {
				t.Errorf("the PodGroup is %v", got)
			}
		})
	}
}

// TestReadPlacement checks that each scheduler finds the PodGroup that it planned.
func TestReadPlacement(t *testing.T) {
	for _, name := range gang.Schedulers() {
		s := scheduling.Find(name)
		if s == nil {
			continue
		}
		t.Run("the scheduler "+string(name), func(t *testing.T) {
			var p plan.Plan
			s.PlanPods(&p, gang.Gang{Placement: gang.Placement{Scheduler: name, PodGroup: "train"}})
			template := &corev1.PodTemplateSpec{}
			template.Labels, template.Annotations = map[string]string{}, map[string]string{}
			for _, l := range p.PodLabels {
				template.Labels[l.Name] = l.Value
			}
			for _, a := range p.PodAnnotations {
				template.Annotations[a.Name] = a.Value
			}
			if p.SchedulingGroup != "" {
				template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(p.SchedulingGroup)}
			}
			if got := s.ReadPlacement(template).PodGroup; got != "train" {
				t.Errorf("the PodGroup is %q", got)
			}
			if got := s.ReadPlacement(&corev1.PodTemplateSpec{}).PodGroup; got != "" {
				t.Errorf("the PodGroup of other pods is %q", got)
			}
		})
	}
}
