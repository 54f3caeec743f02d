package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	// scaleCurveEnv is the environment variable that enables TestScaleCurve and TestManyGangs.
	scaleCurveEnv = "ROLLCALL_BENCH_SCALE"
	// scaleSizesEnv is the environment variable with other sizes of gangs, separated by commas.
	scaleSizesEnv = "ROLLCALL_BENCH_SIZES"
	// maxGangWrites bounds the writes of Rollcall for a gang that starts, restarts once and succeeds.
	maxGangWrites = 12
	// maxSuccessWrites bounds those writes without the restart: the Service and the phases Running
	// and Succeeded (docs/adr/0008-observability.md).
	maxSuccessWrites = 3
	// statusWriters is the number of simultaneous requests with which the test reports exits. In a real
	// cluster, each kubelet reports those of its own pods.
	statusWriters = 16
)

// scaleCurveSizes are the numbers of ranks, the largest last.
var scaleCurveSizes = []int{10, 100, 1000, 10000}

// TestScaleCurve measures the life of one gang for increasing numbers of ranks: it starts, one of its
// ranks fails, all ranks restart, and all of them succeed. Next to each gang, it measures the start of the
// same Job without the label. The number of writes of Rollcall must not depend on the number of ranks.
func TestScaleCurve(t *testing.T) {
	skipUnlessScale(t)
	sizes := readScaleSizes(t, scaleCurveSizes)
	namespace := func(ranks int, v variant) string { return fmt.Sprintf("curve-%d-%s", ranks, v) }
	var namespaces []string
	for _, v := range []variant{variantPlain, variantLabeled} {
		namespaces = append(namespaces, namespace(0, v))
		for _, ranks := range sizes {
			namespaces = append(namespaces, namespace(ranks, v))
		}
	}
	audit := newAuditLog(t, namespaces)
	c := cluster.Start(t, cluster.Options{
		Nodes: cluster.Kwok, KwokNodes: nodeCount, APIServerFlags: audit.apiServerFlags(),
	})
	m := installation.New(t, c, "--log-level=info")
	g := newBenchCluster(t, c, audit)
	for _, v := range []variant{variantPlain, variantLabeled} {
		g.measureLoad(t, warmUpLoad, v, namespace(0, v))
	}
	var results []scaleResult
	for i, ranks := range sizes {
		isLast := i == len(sizes)-1
		r := g.measureLife(t, m, ranks, namespace(ranks, variantLabeled))
		if !isLast {
			g.deleteFinishedGang(t, ranks, namespace(ranks, variantLabeled))
		}
		r.plain = g.measureStart(t, ranks, variantPlain, namespace(ranks, variantPlain))
		results = append(results, r)
		t.Logf("\n%s", formatScaleCurve(results, describeMachine()))
		checkLifeWrites(t, r)
		if !isLast {
			g.deletePlainJob(t, ranks, namespace(ranks, variantPlain))
		}
	}
}

func skipUnlessScale(t *testing.T) {
	t.Helper()
	if os.Getenv(scaleCurveEnv) != "true" {
		t.Skipf("10,000 simulated ranks take more than half an hour; %s=true runs them", scaleCurveEnv)
	}
}

// readScaleSizes returns the numbers of ranks of the environment, or the defaults.
func readScaleSizes(t *testing.T, defaults []int) []int {
	t.Helper()
	text := os.Getenv(scaleSizesEnv)
	if text == "" {
		return defaults
	}
	var sizes []int
	for field := range strings.SplitSeq(text, ",") {
		ranks, err := strconv.Atoi(field)
		if err != nil || ranks < 1 {
			t.Fatalf("%s is %q, want numbers of at least 1, separated by commas", scaleSizesEnv, text)
		}
		sizes = append(sizes, ranks)
	}
	return sizes
}

// startResult holds the measurements of the start of one Job. All times begin with its creation.
type startResult struct {
	// CreateSeconds is the time of the request that creates the Job, which includes its admission.
	CreateSeconds float64
	// PodsSeconds is the time until all pods exist, ReadySeconds until all are ready, and
	// RunningSeconds until the gang is in phase Running.
	PodsSeconds, ReadySeconds, RunningSeconds float64
	// CPUSeconds is the CPU time of each program until all pods are ready.
	CPUSeconds map[string]float64
	// writes counts the writes of the start.
	writes map[writeKind]int
}

// scaleResult holds the measurements of one gang and of the same Job without the label.
type scaleResult struct {
	Ranks        int
	plain, start startResult
	// RestartSeconds is the time from the failure of a rank until all ranks are ready in new pods.
	// SucceedSeconds is the time from the exit of the first rank until the gang is in phase Succeeded.
	RestartSeconds, SucceedSeconds float64
	// restartWrites and successWrites count the writes of the two steps.
	restartWrites, successWrites map[writeKind]int
	// Slices, Addresses and EndpointBytes describe the EndpointSlices and Endpoints of the running gang.
	Slices, Addresses, EndpointBytes int
	// Peak is the maximum memory of the controller.
	Peak memoryUsage
}

// timeout bounds each wait for a load of this size.
func (l load) timeout() time.Duration {
	return max(runTimeout, time.Duration(l.Gangs*l.Ranks)*maxTimePerPod)
}

// measureStart creates a Job and waits until all of its pods are ready.
func (g *benchCluster) measureStart(t *testing.T, ranks int, v variant, namespace string) startResult {
	t.Helper()
	one := load{Gangs: 1, Ranks: ranks}
	ctx, cancel := context.WithTimeout(t.Context(), one.timeout())
	defer cancel()
	must := failOnError(t, one, v)
	pods, err := g.watchPodsOfNewNamespace(ctx, namespace)
	must(err)
	defer pods.Stop()

	var r startResult
	before, begin := readCPUSeconds(t), time.Now()
	must(g.createJobs(ctx, one, v, namespace))
	r.CreateSeconds = time.Since(begin).Seconds()
	events, err := waitForReadyPods(ctx, pods, ranks)
	must(err)
	r.PodsSeconds, r.ReadySeconds = events.allExistTime.Sub(begin).Seconds(), time.Since(begin).Seconds()
	r.CPUSeconds = subtractCPUSeconds(readCPUSeconds(t), before)
	if v == variantLabeled {
		must(g.waitForPhase(ctx, namespace, lifecycle.Running))
		r.RunningSeconds = time.Since(begin).Seconds()
	}
	g.audit.waitUntilQuiet(t, quietPeriod)
	r.writes = g.audit.countWrites(t, namespace)
	t.Logf("%s, %s: all pods exist after %.1f s and are ready after %.1f s; CPU %v",
		one, v, r.PodsSeconds, r.ReadySeconds, r.CPUSeconds)
	return r
}

// measureLife measures a gang from its creation to its success, with one restart.
func (g *benchCluster) measureLife(t *testing.T, m *installation.Manager, ranks int, namespace string) scaleResult {
	t.Helper()
	one := load{Gangs: 1, Ranks: ranks}
	ctx, cancel := context.WithTimeout(t.Context(), 3*one.timeout())
	defer cancel()
	must := failOnError(t, one, variantLabeled)
	peak := watchMemory(m.Controller)
	r := scaleResult{Ranks: ranks, start: g.measureStart(t, ranks, variantLabeled, namespace)}
	must(g.measureEndpoints(ctx, namespace, &r))

	r.RestartSeconds = g.measureRecovery(t, one, namespace, func() {})
	must(g.waitForPhase(ctx, namespace, lifecycle.Running))
	g.audit.waitUntilQuiet(t, quietPeriod)
	r.restartWrites = g.audit.countWrites(t, namespace)

	begin := time.Now()
	must(g.completeRanks(ctx, namespace))
	must(g.waitForPhase(ctx, namespace, lifecycle.Succeeded))
	r.SucceedSeconds = time.Since(begin).Seconds()
	g.audit.waitUntilQuiet(t, quietPeriod)
	r.successWrites = g.audit.countWrites(t, namespace)
	var err error
	r.Peak, err = peak()
	must(err)
	return r
}

// failOnError returns a function that fails the test if its argument is not nil.
func failOnError(t *testing.T, l load, v variant) func(error) {
	t.Helper()
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s, %s: %v", l, v, err)
		}
	}
}

// measureEndpoints records the published addresses of a running gang.
func (g *benchCluster) measureEndpoints(ctx context.Context, namespace string, r *scaleResult) error {
	slicesOfGang, err := g.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the EndpointSlices: %w", err)
	}
	for i := range slicesOfGang.Items {
		r.Slices++
		r.Addresses += len(slicesOfGang.Items[i].Endpoints)
		r.EndpointBytes += slicesOfGang.Items[i].Size()
	}
	endpoints, err := g.client.CoreV1().Endpoints(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the Endpoints: %w", err)
	}
	for i := range endpoints.Items {
		r.EndpointBytes += endpoints.Items[i].Size()
	}
	return nil
}

// completeRanks reports that all ranks exited with code 0, as their kubelets do.
func (g *benchCluster) completeRanks(ctx context.Context, namespace string) error {
	pods, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the pods: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(statusWriters)
	for _, p := range pods.Items {
		group.Go(func() error { return g.reportSuccess(ctx, p) })
	}
	return group.Wait()
}

// reportSuccess writes the status that a kubelet reports when the container of a pod exits with code 0.
func (g *benchCluster) reportSuccess(ctx context.Context, p corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": corev1.PodSucceeded,
		"containerStatuses": []map[string]any{{
			"name": trainingContainer, "image": p.Spec.Containers[0].Image, "imageID": "", "ready": false, "restartCount": 0,
			"state": map[string]any{"terminated": map[string]any{
				"exitCode": 0, "reason": "Completed", "finishedAt": time.Now().UTC().Format(time.RFC3339),
			}},
		}},
	}})
	if err != nil {
		return fmt.Errorf("writing the success of a pod: %w", err)
	}
	if _, err := g.client.CoreV1().Pods(p.Namespace).Patch(
		ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status",
	); err != nil {
		return fmt.Errorf("reporting the success of %s: %w", p.Name, err)
	}
	return nil
}

// deleteFinishedGang deletes the pods of a finished gang by one request, and then the gang.
func (g *benchCluster) deleteFinishedGang(t *testing.T, ranks int, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), load{Gangs: 1, Ranks: ranks}.timeout())
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := g.client.CoreV1().Pods(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Fatalf("deleting the pods: %v", err)
	}
	if err := g.deleteGangs(ctx, namespace); err != nil {
		t.Fatal(err)
	}
}

// deletePlainJob deletes a Job with its pods.
func (g *benchCluster) deletePlainJob(t *testing.T, ranks int, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), load{Gangs: 1, Ranks: ranks}.timeout())
	defer cancel()
	if err := g.deleteGangs(ctx, namespace); err != nil {
		t.Fatal(err)
	}
}

// checkLifeWrites checks the number of accepted writes of Rollcall. Rejected writes do not count, because
// the number of conflicts with the Job controller depends on timing.
func checkLifeWrites(t *testing.T, r scaleResult) {
	t.Helper()
	all := addWrites(r.start.writes, r.restartWrites, r.successWrites)
	if n := countRollcallWrites(all, false); n > maxGangWrites {
		t.Errorf("%d ranks: %d writes of Rollcall, want at most %d: %v", r.Ranks, n, maxGangWrites, all)
	}
	success := addWrites(r.start.writes, r.successWrites)
	if n := countRollcallWrites(success, false); n > maxSuccessWrites {
		t.Errorf("%d ranks: %d writes of Rollcall without the restart, want at most %d: %v",
			r.Ranks, n, maxSuccessWrites, success)
	}
	if n := countRollcallWrites(r.plain.writes, false); n > 0 {
		t.Errorf("%d ranks: %d writes of Rollcall for a plain Job: %v", r.Ranks, n, r.plain.writes)
	}
}

// addWrites returns the sum of counts of writes.
func addWrites(counts ...map[writeKind]int) map[writeKind]int {
	all := map[writeKind]int{}
	for _, c := range counts {
		for w, n := range c {
			all[w] += n
		}
	}
	return all
}

// countRollcallWrites returns the number of writes of Rollcall that the API server accepted, or rejected.
func countRollcallWrites(writes map[writeKind]int, rejected bool) int {
	return countWritesWhere(writes, func(w writeKind) bool {
		return w.Writer == writerRollcall && w.Rejected == rejected
	})
}

// countEndpointWrites returns the number of accepted writes of Endpoints and EndpointSlices.
func countEndpointWrites(writes map[writeKind]int) int {
	return countWritesWhere(writes, func(w writeKind) bool {
		return (w.Resource == "endpoints" || w.Resource == "endpointslices") && !w.Rejected
	})
}

func countWritesWhere(writes map[writeKind]int, counts func(writeKind) bool) int {
	n := 0
	for w, count := range writes {
		if counts(w) {
			n += count
		}
	}
	return n
}
