package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// applies applies a manifest.
func (m *manager) applies(t *testing.T, ns, manifest string) {
	t.Helper()
	args := []string{"apply", "-f", "-"}
	if ns != "" {
		args = append(args, "-n", ns)
	}
	eventually(t, "the manifest to be applied", func(ctx context.Context) error {
		_, err := m.Cluster.KubectlInput(ctx, manifest, args...)
		return err
	})
}

// queue makes a queue for a namespace, with a quota of GPUs.
func (m *manager) queue(t *testing.T, ns string, gpus int) {
	t.Helper()
	m.applies(t, ns, fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: %[2]d}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: %[1]s}
`, ns, gpus))
}

// queued has the Jobs of a gang wait in the queue of its namespace, for a GPU for each rank.
func queued(name string, workloads ...gang.Workload) []gang.Workload {
	for _, w := range workloads {
		w.Job.Name = strings.Replace(w.Job.Name, "train", name, 1)
		w.Job.Labels[queueLabel] = "team"
		w.Job.Annotations[gang.AnnotationGPUs] = "1"
	}
	return workloads
}

// follows records how the Jobs of a namespace change, until the test ends.
func (m *manager) follows(t *testing.T, ns string) *history {
	t.Helper()
	w, err := m.Client.BatchV1().Jobs(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := &history{last: map[string]string{}, suspended: map[string]int{}, began: time.Now()}
	go func() {
		for e := range w.ResultChan() {
			if j, ok := e.Object.(*batchv1.Job); ok {
				h.note(j)
			}
		}
	}()
	t.Cleanup(func() {
		w.Stop()
		h.mu.Lock()
		defer h.mu.Unlock()
		t.Logf("what became of the Jobs:\n%s", strings.Join(h.lines, "\n"))
	})
	return h
}

// history is how the Jobs of a namespace changed.
type history struct {
	mu        sync.Mutex
	began     time.Time
	last      map[string]string
	suspended map[string]int
	lines     []string
}

func (h *history) note(j *batchv1.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := gang.StatusOf(gang.Workload{Job: j})
	by := ""
	for _, f := range j.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.String(), "f:suspend") {
			by += f.Manager + " "
		}
	}
	suspended := ptr.Deref(j.Spec.Suspend, false)
	line := fmt.Sprintf("%s suspend=%t by %s stopped=%t %s attempt=%d label=%s active=%d terminating=%d failed=%d", j.Name, suspended, by, s.Stopped,
		gang.PhaseOf(gang.Workload{Job: j}), s.Attempt, j.Spec.Template.Labels[gang.LabelAttempt], j.Status.Active, ptr.Deref(j.Status.Terminating, 0), j.Status.Failed)
	if line == h.last[j.Name] {
		return
	}
	if suspended && !strings.HasPrefix(h.last[j.Name], j.Name+" suspend=true") {
		h.suspended[j.Name]++
	}
	h.last[j.Name] = line
	h.lines = append(h.lines, fmt.Sprintf("%6.2f %s", time.Since(h.began).Seconds(), line))
}

// times is how often a Job was suspended, from its creation on.
func (h *history) times(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.suspended[name]
}

// conditions waits until the workload of a Job has a condition for Kueue.
func (m *manager) workloadIs(t *testing.T, ns, job, condition, status string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s of %s to be %s", condition, job, status), func(ctx context.Context) error {
		out, err := m.Cluster.Kubectl(ctx, "-n", ns, "get", "workloads.v1beta2.kueue.x-k8s.io", "-o",
			`jsonpath={range .items[*]}{.metadata.ownerReferences[0].name}{" "}{.status.conditions[?(@.type=="`+condition+`")].status}{"\n"}{end}`)
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			if strings.TrimSpace(line) == strings.TrimSpace(job+" "+status) {
				return nil
			}
		}
		return fmt.Errorf("workloads: %q", out)
	})
}

// uses waits until Kueue counts that many GPUs as in use by a namespace.
func (m *manager) uses(t *testing.T, ns string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d GPUs to be in use", want), func(ctx context.Context) error {
		out, err := m.Cluster.Kubectl(ctx, "get", "clusterqueues.v1beta2.kueue.x-k8s.io", ns, "-o", `jsonpath={.status.flavorsReservation[0].resources[0].total}`)
		if err == nil && out != strconv.Itoa(want) {
			err = fmt.Errorf("%q are", out)
		}
		return err
	})
}

// active has the one workload of a namespace queued, or not.
func (m *manager) active(t *testing.T, ns string, is bool) {
	t.Helper()
	out, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "get", "workloads.v1beta2.kueue.x-k8s.io", "-o", "name")
	if err == nil {
		_, err = m.Cluster.Kubectl(t.Context(), "-n", ns, "patch", strings.TrimSpace(out), "--type=merge", "-p", fmt.Sprintf(`{"spec":{"active":%t}}`, is))
	}
	if err != nil {
		t.Fatal(err)
	}
}
