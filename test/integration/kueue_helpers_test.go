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
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// applyManifest applies a manifest to a namespace.
func (m *manager) applyManifest(t *testing.T, ns, manifest string) {
	t.Helper()
	args := []string{"apply", "-f", "-"}
	if ns != "" {
		args = append(args, "-n", ns)
	}
	wait.For(t, "the manifest to be applied", func(ctx context.Context) error {
		_, err := m.Cluster.KubectlWithInput(ctx, manifest, args...)
		return err
	})
}

// createQueue creates a queue for a namespace, with a quota of GPUs.
func (m *manager) createQueue(t *testing.T, ns string, gpus int) {
	t.Helper()
	m.createQueueWith(t, ns, newQuota("a100", gpus), "")
}

// newQuota returns the quota of a flavor in a manifest.
func newQuota(flavor string, gpus int) string {
	return fmt.Sprintf("{name: %s, resources: [{name: nvidia.com/gpu, nominalQuota: %d}]}", flavor, gpus)
}

// createQueueWith creates or updates a queue for a namespace, with the quotas of flavors and further fields.
func (m *manager) createQueueWith(t *testing.T, ns, quotas, fields string) {
	t.Helper()
	m.applyManifest(t, ns, fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [%[2]s]
  %[3]s
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: %[1]s}
`, ns, quotas, fields))
}

// assignQueue labels the Jobs of a gang with the queue of its namespace, and requests one GPU for
// each rank.
func assignQueue(name string, workloads ...gang.Workload) []gang.Workload {
	for _, w := range workloads {
		w.Job.Name = strings.Replace(w.Job.Name, "train", name, 1)
		w.Job.Labels[queueLabel] = "team"
		w.Job.Annotations[gang.AnnotationGPUs] = "1"
	}
	return workloads
}

// recordJobHistory records the changes of the Jobs of a namespace until the test ends.
func (m *manager) recordJobHistory(t *testing.T, ns string) *jobHistory {
	t.Helper()
	w, err := m.Client.BatchV1().Jobs(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := &jobHistory{lastLineByJob: map[string]string{}, suspendCounts: map[string]int{}, startTime: time.Now()}
	go func() {
		for e := range w.ResultChan() {
			if j, ok := e.Object.(*batchv1.Job); ok {
				h.recordChange(j)
			}
		}
	}()
	t.Cleanup(func() {
		w.Stop()
		h.mu.Lock()
		defer h.mu.Unlock()
		t.Logf("changes of the Jobs:\n%s", strings.Join(h.lines, "\n"))
	})
	return h
}

// jobHistory holds the changes of the Jobs of a namespace.
type jobHistory struct {
	mu            sync.Mutex
	startTime     time.Time
	lastLineByJob map[string]string
	suspendCounts map[string]int
	lines         []string
}

func (h *jobHistory) recordChange(j *batchv1.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := lifecycle.ReadStatus(gang.Workload{Job: j})
	by := ""
	for _, f := range j.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.String(), "f:suspend") {
			by += f.Manager + " "
		}
	}
	suspended := ptr.Deref(j.Spec.Suspend, false)
	line := fmt.Sprintf("%s suspend=%t by %s suspendedByRollcall=%t %s restarts=%d label=%s "+
		"active=%d terminating=%d failed=%d", j.Name,
		suspended, by, s.SuspendedByRollcall,
		lifecycle.ReadPhase(gang.Workload{Job: j}), s.Restarts, j.Spec.Template.Labels[gang.LabelAttempt],
		j.Status.Active, ptr.Deref(j.Status.Terminating, 0), j.Status.Failed)
	if line == h.lastLineByJob[j.Name] {
		return
	}
	if suspended && !strings.HasPrefix(h.lastLineByJob[j.Name], j.Name+" suspend=true") {
		h.suspendCounts[j.Name]++
	}
	h.lastLineByJob[j.Name] = line
	h.lines = append(h.lines, fmt.Sprintf("%6.2f %s", time.Since(h.startTime).Seconds(), line))
}

// countSuspends returns how often a Job was suspended, including at creation.
func (h *jobHistory) countSuspends(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.suspendCounts[name]
}

// waitForWorkloadCondition waits until Kueue's Workload of a Job has a condition.
func (m *manager) waitForWorkloadCondition(t *testing.T, ns, job, condition, status string) {
	t.Helper()
	wait.For(t, fmt.Sprintf("%s of %s to be %s", condition, job, status), func(ctx context.Context) error {
		out, err := m.Cluster.Kubectl(ctx, "-n", ns, "get", "workloads.v1beta2.kueue.x-k8s.io", "-o",
			`jsonpath={range .items[*]}{.metadata.ownerReferences[0].name}{" "}`+
				`{.status.conditions[?(@.type=="`+condition+`")].status}{"\n"}{end}`)
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

// waitForGPUsInUse waits until Kueue reports that a namespace uses the given number of GPUs.
func (m *manager) waitForGPUsInUse(t *testing.T, ns string, want int) {
	t.Helper()
	wait.For(t, fmt.Sprintf("%d GPUs to be in use", want), func(ctx context.Context) error {
		out, err := m.Cluster.Kubectl(
			ctx, "get", "clusterqueues.v1beta2.kueue.x-k8s.io", ns, "-o",
			`jsonpath={.status.flavorsReservation[0].resources[0].total}`,
		)
		if err == nil && out != strconv.Itoa(want) {
			err = fmt.Errorf("%q are", out)
		}
		return err
	})
}

// setWorkloadActive activates or deactivates the only Workload of a namespace.
func (m *manager) setWorkloadActive(t *testing.T, ns string, is bool) {
	t.Helper()
	out, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "get", "workloads.v1beta2.kueue.x-k8s.io", "-o", "name")
	if err == nil {
		_, err = m.Cluster.Kubectl(
			t.Context(), "-n", ns, "patch", strings.TrimSpace(out), "--type=merge", "-p",
			fmt.Sprintf(`{"spec":{"active":%t}}`, is),
		)
	}
	if err != nil {
		t.Fatal(err)
	}
}
