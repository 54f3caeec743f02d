package kueue_test

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rollcall.training/gang"
	"rollcall.training/internal/kueue"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func newPodSet(name string, count int32, gpus string) kueue.PodSet {
	limits := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
	container := corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}}
	return kueue.PodSet{Name: name, Count: count, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{container}, NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations: []corev1.Toleration{{Key: "user"}},
	}}}
}

func build(t *testing.T, sets ...kueue.PodSet) *unstructured.Unstructured {
	t.Helper()
	w, err := kueue.Build(kueue.Spec{
		Namespace: "team", Name: "train", Queue: "gpus", PodSets: sets,
		Priority: &kueue.Priority{Group: "kueue.x-k8s.io", Kind: "WorkloadPriorityClass", Name: "high", Value: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func setStatus(w *unstructured.Unstructured, status map[string]any) { w.Object["status"] = status }

// newConditions returns the status with conditions that are true, or false if the name starts with "!".
func newConditions(names ...string) map[string]any {
	var out []any
	for _, name := range names {
		status := "True"
		if name[0] == '!' {
			name, status = name[1:], "False"
		}
		out = append(out, map[string]any{"type": name, "status": status, "reason": "Preempted",
			"message": "words of " + name, "lastTransitionTime": now.Format(time.RFC3339)})
	}
	return map[string]any{"conditions": out, "admission": map[string]any{"clusterQueue": "gpus"}}
}

func TestBuild(t *testing.T) {
	w := build(t, newPodSet("ps", 4, "1"), newPodSet("worker", 2, "1"))
	spec := w.Object["spec"].(map[string]any)
	if spec["queueName"] != "gpus" || spec["priority"] != int64(7) || w.GetName() != "train" {
		t.Errorf("the Workload is %v", w)
	}
	var got []any
	for _, set := range spec["podSets"].([]any) {
		got = append(got, set.(map[string]any)["name"], set.(map[string]any)["count"])
	}
	if diff := cmp.Diff([]any{"ps", int64(4), "worker", int64(2)}, got); diff != "" {
		t.Errorf("pod sets: -want, +got:\n%s", diff)
	}
}

// TestIsFor checks which changes of a gang, or of a Workload by somebody else, need another Workload.
func TestIsFor(t *testing.T) {
	otherEnv, otherPod, sidecar := newPodSet("ps", 4, "1"), newPodSet("ps", 4, "1"), newPodSet("ps", 4, "1")
	otherEnv.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "WORLD_SIZE", Value: "4"}}
	otherPod.Template.Spec.Resources = &otherPod.Template.Spec.Containers[0].Resources
	sidecar.Template.Spec.InitContainers = sidecar.Template.Spec.Containers
	for name, test := range map[string]struct {
		set    kueue.PodSet
		queue  string
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"the same pods":               {set: newPodSet("ps", 4, "1"), want: true},
		"another variable":            {set: otherEnv, want: true},
		"another size":                {set: newPodSet("ps", 3, "1")},
		"another request":             {set: newPodSet("ps", 4, "2")},
		"another request of the pods": {set: otherPod},
		"an init container":           {set: sidecar},
		"another queue":               {set: newPodSet("ps", 4, "1"), queue: "cpus"},
		"another role":                {set: newPodSet("chief", 4, "1")},
		"one GPU spelled as 1":        {set: newPodSet("ps", 4, "1000m"), want: true},
		"a size that somebody changed in the Workload": {
			set: newPodSet("ps", 4, "1"), change: func(w *unstructured.Unstructured) {
				w.Object["spec"].(map[string]any)["podSets"].([]any)[1].(map[string]any)["count"] = int64(1)
			},
		},
		"a pod set that somebody added to the Workload": {
			set: newPodSet("ps", 4, "1"), change: func(w *unstructured.Unstructured) {
				spec := w.Object["spec"].(map[string]any)
				spec["podSets"] = append(spec["podSets"].([]any), map[string]any{"name": "other", "count": int64(1)})
			},
		},
		"pod sets that nobody can read": {
			set: newPodSet("ps", 4, "1"), change: func(w *unstructured.Unstructured) {
				w.Object["spec"].(map[string]any)["podSets"] = "ps"
			},
		},
	} {
		t.Run("a gang with "+name, func(t *testing.T) {
			w := build(t, newPodSet("worker", 2, "1"), newPodSet("ps", 4, "1"))
			if test.change != nil {
				test.change(w)
			}
			for range 2 { // a cache may trim twice
				kueue.Trim(w)
			}
			if got := kueue.IsFor(w, []kueue.PodSet{test.set}, 2, stdcmp.Or(test.queue, "gpus")); got != test.want {
				t.Errorf("the Workload fits: %t", got)
			}
		})
	}
}

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		status map[string]any
		want   kueue.Status
	}{
		"a new Workload": {},
		"a Workload that waits for quota": {
			status: newConditions("!QuotaReserved"), want: kueue.Status{Message: "words of QuotaReserved"}},
		"a Workload that waits for a check": {
			status: newConditions("QuotaReserved", "!Admitted"), want: kueue.Status{Message: "words of Admitted"}},
		"an admitted Workload": {
			status: newConditions("QuotaReserved", "Admitted", "!Evicted"), want: kueue.Status{Admitted: true}},
		"an evicted Workload": {
			status: newConditions("QuotaReserved", "Admitted", "Evicted", "PodsReady"),
			want:   kueue.Status{MustRelease: true, ReportsReady: true}},
		"a finished Workload": {
			status: newConditions("QuotaReserved", "Admitted", "Finished"), want: kueue.Status{Finished: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			setStatus(w, test.status)
			got, err := kueue.Read(w)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, -want, +got:\n%s", err, diff)
			}
		})
	}
}

// TestRelease checks that an evicted Workload has no quota afterward, and that only a preempted one is requeued.
func TestRelease(t *testing.T) {
	for reason, requeued := range map[string]string{
		"Preempted": "True Preempted", "PodsReadyTimeout": "False PodsReadyTimeout", "Deactivated": "False Deactivated",
		"DeactivatedDueToRequeuingLimitExceeded": "False Deactivated",
	} {
		t.Run("a Workload with the reason "+reason, func(t *testing.T) {
			w := build(t)
			setStatus(w, newConditions("QuotaReserved", "Admitted", "Evicted", "PodsReady", "DeactivationTarget"))
			conditions := w.Object["status"].(map[string]any)["conditions"].([]any)
			conditions[2].(map[string]any)["reason"] = reason
			if err := kueue.Release(w, now); err != nil {
				t.Fatal(err)
			}
			got := map[any]any{}
			status := w.Object["status"].(map[string]any)
			for _, c := range status["conditions"].([]any) {
				condition := c.(map[string]any)
				got[condition["type"]] = condition["status"]
				if condition["type"] == "Requeued" {
					got["Requeued"] = fmt.Sprintf("%s %s", condition["status"], condition["reason"])
				}
			}
			want := map[any]any{"QuotaReserved": "False", "Admitted": "False", "Evicted": "True", "PodsReady": "False",
				"Requeued": requeued}
			if diff := cmp.Diff(want, got); diff != "" || status["admission"] != nil {
				t.Errorf("admission %v, conditions -want, +got:\n%s", status["admission"], diff)
			}
			if s, err := kueue.Read(w); err != nil || s.MustRelease || s.Admitted {
				t.Errorf("the status is %+v, %v", s, err)
			}
		})
	}
}

// TestFinish checks that the end keeps the other conditions.
func TestFinish(t *testing.T) {
	w := build(t)
	setStatus(w, newConditions("QuotaReserved", "Admitted"))
	if err := kueue.ReportReady(w, now); err != nil {
		t.Fatal(err)
	}
	if s, _ := kueue.Read(w); !s.ReportsReady || !s.Admitted {
		t.Errorf("the status of the ready gang is %+v", s)
	}
	if err := kueue.Finish(w, true, "done", now); err != nil {
		t.Fatal(err)
	}
	if s, _ := kueue.Read(w); !s.Finished || s.Admitted {
		t.Errorf("the status of the finished gang is %+v", s)
	}
}

// TestDeactivate checks that a Workload whose admission is not supported is not admitted, and says why until a user
// activates it.
func TestDeactivate(t *testing.T) {
	w := build(t)
	setStatus(w, newConditions("QuotaReserved", "Admitted"))
	unsupported := fmt.Errorf("a topology is %w", kueue.ErrUnsupported)
	if err := kueue.Deactivate(w, unsupported, now); err != nil {
		t.Fatal(err)
	}
	want := kueue.Status{Unsupported: true, Message: unsupported.Error()}
	if got, err := kueue.Read(w); err != nil || got != want {
		t.Errorf("before Kueue deactivates the Workload: %+v, %v", got, err)
	}
	setStatus(w, newConditions("!QuotaReserved", "!Admitted", "Evicted"))
	evicted := w.Object["status"].(map[string]any)["conditions"].([]any)[2].(map[string]any)
	evicted["message"] = "The workload is deactivated due to " + want.Message
	for active, want := range map[bool]kueue.Status{
		false: {Unsupported: true, Message: evicted["message"].(string)}, true: {Message: "words of QuotaReserved"},
	} {
		w.Object["spec"].(map[string]any)["active"] = active
		if got, err := kueue.Read(w); err != nil || got != want {
			t.Errorf("with active: %t: %+v, %v", active, got, err)
		}
	}
}

func TestFindNodes(t *testing.T) {
	assign := func(assignment map[string]any, checks ...any) map[string]any {
		assignment["name"] = "ps"
		return map[string]any{
			"admission": map[string]any{"podSetAssignments": []any{assignment}}, "admissionChecks": checks,
		}
	}
	flavors := map[string]any{"cpu": "a100", "nvidia.com/gpu": "a100"}
	update := func(key string, value any) map[string]any {
		return map[string]any{"name": "check", "podSetUpdates": []any{map[string]any{"name": "ps", key: value}}}
	}
	for name, test := range map[string]struct {
		status map[string]any
		want   gang.QueueNodes
		err    error
	}{
		"a flavor of several resources adds once": {
			status: assign(map[string]any{"flavors": flavors, "count": int64(4)}),
			want: gang.QueueNodes{NodeSelector: map[string]string{"gpu": "a100"},
				Tolerations: []corev1.Toleration{{Key: "gpu"}}},
		},
		"an assignment without a flavor adds nothing": {
			status: assign(map[string]any{}), want: gang.QueueNodes{NodeSelector: map[string]string{}},
		},
		"a check that changes pods is not supported": {
			status: assign(map[string]any{}, update("labels", map[string]any{"a": "b"})), err: kueue.ErrUnsupported,
		},
		"a topology is not supported": {
			status: assign(map[string]any{"topologyAssignment": map[string]any{"levels": []any{}}}), err: kueue.ErrUnsupported,
		},
		"fewer pods are not supported": {
			status: assign(map[string]any{"count": int64(3)}), err: kueue.ErrUnsupported,
		},
		"an admission without the pod set is not supported": {status: map[string]any{}, err: kueue.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			set := newPodSet("ps", 4, "1")
			w := build(t, set)
			setStatus(w, test.status)
			got, err := kueue.FindNodes(w, []kueue.PodSet{set}, func(flavor string) (gang.QueueNodes, error) {
				return kueue.ReadFlavor(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
					"nodeLabels": map[string]any{"gpu": flavor}, "tolerations": []any{map[string]any{"key": "gpu"}},
				}}})
			})
			if !errors.Is(err, test.err) {
				t.Fatalf("error: %v", err)
			}
			if diff := cmp.Diff(test.want, got["ps"]); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}
