package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// drainedRanks is the number of ranks of the gangs in TestDrain.
const drainedRanks = 3

// TestDrain checks that a gang restarts with all ranks after some or all of its pods were deleted or
// evicted, although its program exits with code 0 on SIGTERM, as programs do that save a checkpoint.
// ROLLCALL_E2E=all tries each case with 20 gangs.
func TestDrain(t *testing.T) {
	s := requireCluster(t)
	for name, c := range map[string]struct {
		statefulSet bool
		// hasLimit gives the Job a limit on failed pods, so that Rollcall adds restart rules.
		hasLimit bool
		ranks    []int32
		remove   func(context.Context, corev1.Pod) error
	}{
		"one pod of a Job is deleted":   {ranks: []int32{1}, remove: s.deletePod},
		"one pod of a Job is evicted":   {ranks: []int32{1}, remove: s.evictPod},
		"rank 0 of a Job is deleted":    {ranks: []int32{0}, remove: s.deletePod},
		"two pods of a Job are deleted": {ranks: []int32{0, 2}, remove: s.deletePod},
		"all pods of a Job are evicted": {ranks: []int32{0, 1, 2}, remove: s.evictPod},
		"one pod of a Job with restart rules is deleted": {
			hasLimit: true, ranks: []int32{1}, remove: s.deletePod,
		},
		"all pods of a Job with restart rules are evicted": {
			hasLimit: true, ranks: []int32{0, 1, 2}, remove: s.evictPod,
		},
		"two pods of a StatefulSet are deleted": {statefulSet: true, ranks: []int32{0, 2}, remove: s.deletePod},
		"one pod of a StatefulSet is deleted":   {statefulSet: true, ranks: []int32{1}, remove: s.deletePod},
		"all pods of a StatefulSet are evicted": {
			statefulSet: true, ranks: []int32{0, 1, 2}, remove: s.evictPod,
		},
	} {
		t.Run(name, func(t *testing.T) {
			gangs := s.createTerminableGangs(t, c.statefulSet, c.hasLimit)
			for _, g := range gangs {
				g.pods = g.waitForRunningRanks(t, 0)
			}
			start := time.Now()
			for _, g := range gangs {
				var errs []error
				for _, rank := range c.ranks {
					errs = append(errs, c.remove(t.Context(), g.pods[rank]))
				}
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
			}
			var attempts int32
			for _, g := range gangs {
				for index, pod := range g.waitForRunningRanks(t, 1) {
					if pod.UID == g.pods[index].UID {
						t.Errorf("rank %d of %s was not restarted", index, g.name)
					}
				}
				attempts += g.status.Attempt
			}
			t.Logf("all ranks of %d gangs run again after %.1f s; %d starts were repeated", len(gangs),
				time.Since(start).Seconds(), int(attempts)-len(gangs))
		})
	}
}

// terminableGang is a gang whose program exits with code 0 on SIGTERM.
type terminableGang struct {
	*testCluster
	namespace, name string
	statefulSet     bool
	// pods are the pods of the first attempt by index.
	pods map[int32]corev1.Pod
	// status is that which waitForRunningRanks read last.
	status lifecycle.Status
}

// createTerminableGangs creates one gang, or 20 with ROLLCALL_E2E=all.
func (s *testCluster) createTerminableGangs(t *testing.T, statefulSet, hasLimit bool) []*terminableGang {
	t.Helper()
	count := 1
	if os.Getenv("ROLLCALL_E2E") == "all" {
		count = 20
	}
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "train.sh", "trap 'echo saved; exit 0' TERM\nsleep infinity &\nwait\n")
	spec := s.newPodSpec("sh", "train.sh")
	spec.TerminationGracePeriodSeconds = ptr.To[int64](10)
	var out []*terminableGang
	for i := range count {
		g := &terminableGang{testCluster: s, namespace: ns, name: fmt.Sprintf("train-%d", i), statefulSet: statefulSet}
		if statefulSet {
			g.createStatefulSet(t, spec)
		} else {
			s.createJob(t, ns, g.name, drainedRanks, nil, spec, func(job *batchv1.Job) {
				if hasLimit {
					job.Spec.BackoffLimit = ptr.To[int32](1000)
				}
			})
		}
		out = append(out, g)
	}
	return out
}

func (g *terminableGang) createStatefulSet(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	g.testCluster.createStatefulSet(t, g.namespace, g.name, drainedRanks, spec)
}

func (g *terminableGang) read(ctx context.Context) (gang.Workload, error) {
	return g.readWorkload(ctx, g.namespace, g.name, g.statefulSet)
}

// waitForRunningRanks waits until the gang is Running after a number of disruptions, and no restart. It returns the
// pods by index.
func (g *terminableGang) waitForRunningRanks(t *testing.T, disruptions int32) map[int32]corev1.Pod {
	t.Helper()
	pods := map[int32]corev1.Pod{}
	wait.For(t, fmt.Sprintf("all ranks of %s after %d disruptions", g.name, disruptions), func(ctx context.Context) error {
		w, err := g.read(ctx)
		if err != nil {
			return err
		}
		status := lifecycle.ReadStatus(w)
		g.status = status
		if status.Phase.Terminal() || status.Restarts > 0 || status.Disruptions > disruptions {
			t.Fatalf("%s is %s after %d restarts and %d disruptions: %s",
				g.name, status.Phase, status.Restarts, status.Disruptions, status.Message)
		}
		if status.Phase != lifecycle.Running || status.Disruptions < disruptions {
			return fmt.Errorf("%s after %d disruptions: %s", status.Phase, status.Disruptions, status.Message)
		}
		clear(pods)
		for _, pod := range g.listPods(t, g.namespace, g.name) {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				pods[gang.PodIndex(&pod)] = pod
			}
		}
		if len(pods) != drainedRanks {
			return fmt.Errorf("%d ranks run, want %d", len(pods), drainedRanks)
		}
		return nil
	})
	return pods
}

func (s *testCluster) deletePod(ctx context.Context, pod corev1.Pod) error {
	return s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

func (s *testCluster) evictPod(ctx context.Context, pod corev1.Pod) error {
	return s.client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
	})
}
