package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	// admissionEnv is the environment variable that enables TestAdmission.
	admissionEnv = "ROLLCALL_BENCH_ADMISSION"
	// admissionDurationEnv is the environment variable with the duration of each measurement.
	admissionDurationEnv = "ROLLCALL_BENCH_ADMISSION_DURATION"

	// callsPerSecond is the rate of the calls to the webhook.
	callsPerSecond = 200
	// dryRunsPerSecond is the rate of the calls through the API server. An API server that shares two cores with the
	// client and with etcd cannot answer more.
	dryRunsPerSecond = 30
	// measuredStarts is the number of starts of the webhook.
	measuredStarts = 5
	// startInterval is the time between two attempts to call a webhook that starts.
	startInterval = 2 * time.Millisecond
	// throughputClients is the number of clients that call the webhook without a pause. The webhook handles
	// as many requests at the same time.
	throughputClients = 8
)

// admissionBench measures the webhook of a cluster.
type admissionBench struct {
	*benchCluster
	manager *installation.Manager
	webhook webhookClient
	// api calls the webhook through the API server.
	api      kubernetes.Interface
	duration time.Duration
	report   bytes.Buffer
}

// TestAdmission measures the start, the memory and the idle CPU time of the webhook, and the latency of
// admission on an idle cluster and on a busy cluster. It asserts that each call injects the Job, and that
// the webhook lists and watches no pods and no workloads, so its start does not depend on their number.
func TestAdmission(t *testing.T) {
	if os.Getenv(admissionEnv) != "true" {
		t.Skipf("the measurements take eight minutes; %s=true runs them", admissionEnv)
	}
	audit := newAuditLogWithRule(t, map[string]any{"level": "Metadata", "users": []string{installation.WebhookUser}})
	c := cluster.Start(t, cluster.Options{
		Nodes: cluster.Kwok, KwokNodes: nodeCount, APIServerFlags: audit.apiServerFlags(),
	})
	m := installation.New(t, c, "--log-level=info")
	config := c.Config()
	config.QPS = -1 // no limit
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	b := &admissionBench{
		benchCluster: newBenchCluster(t, c, audit), manager: m, webhook: newWebhookClient(t, m), api: api,
		duration: readDuration(t),
	}
	fmt.Fprintf(&b.report, "%s\n\n", describeMachine())
	b.measureStarts(t)
	b.measureRest(t)
	b.measureLatencies(t)
	b.measureThroughput(t)
	t.Logf("\n%s", b.report.String())
	m.Stop(t) // the API server logs a watch when it ends
	checkWebhookReads(t, audit.readEvents(t))
}

// readDuration returns the duration of each measurement.
func readDuration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(admissionDurationEnv)
	if text == "" {
		return time.Minute
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < time.Second {
		t.Fatalf("%s is %q, want a duration of at least a second", admissionDurationEnv, text)
	}
	return duration
}

// measureStarts restarts the webhook and measures the time until its first response.
func (b *admissionBench) measureStarts(t *testing.T) {
	t.Helper()
	seconds := make([]float64, measuredStarts)
	for i := range seconds {
		b.manager.Webhook.Stop(t)
		begin := time.Now()
		b.manager.Webhook.Launch(t)
		var last error
		err := wait.PollUntilContextTimeout(t.Context(), startInterval, runTimeout, true,
			func(ctx context.Context) (bool, error) {
				last = b.webhook.call(ctx, i)
				return last == nil, nil
			})
		if err != nil {
			t.Fatalf("waiting for the first response of the webhook: %v; last error: %v", err, last)
		}
		seconds[i] = time.Since(begin).Seconds()
	}
	fmt.Fprintf(&b.report, "From the start of the webhook to its first response: %s\n\n", formatRange(seconds, " s"))
}

// measureRest measures the memory and the CPU time of both processes while nothing happens.
func (b *admissionBench) measureRest(t *testing.T) {
	t.Helper()
	b.report.WriteString("| Process at rest | Resident | Live heap | CPU |\n|---|---|---|---|\n")
	b.manager.Webhook.WaitUntilReady(t)
	processes := []struct {
		name    string
		process *installation.Process
	}{{"Webhook", b.manager.Webhook}, {"Controller", b.manager.Controller}}
	before := map[string]float64{}
	for _, p := range processes {
		before[p.name] = readCPUMetric(t, p.process)
	}
	time.Sleep(b.duration)
	for _, p := range processes {
		cpu := readCPUMetric(t, p.process) - before[p.name]
		memory, err := readMemory(t.Context(), p.process)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b.report, "| %s | %.0f MiB | %.1f MiB | %.2f s in %s |\n",
			p.name, memory.ResidentMiB, memory.LiveHeapMiB, cpu, b.duration)
	}
	b.report.WriteByte('\n')
}

// readCPUMetric returns the CPU seconds of a process, with a resolution of 10 ms.
func readCPUMetric(t *testing.T, p *installation.Process) float64 {
	t.Helper()
	metrics, err := readMetrics(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return metrics["process_cpu_seconds_total"]
}

// measureLatencies measures the calls of the webhook and of the API server, first on an idle cluster.
func (b *admissionBench) measureLatencies(t *testing.T) {
	t.Helper()
	const namespace = "admission-calls"
	b.createNamespace(t, namespace)
	b.report.WriteString(
		"| Calls | Cluster | p50 | p90 | p99 | Maximum | Calls | Errors | CPU of the webhook per call |\n" +
			"|---|---|---|---|---|---|---|---|---|\n")
	throughAPI := func(ctx context.Context, n int) error { return dryRunJob(ctx, b.api, namespace, n) }
	measure := func(calls, cluster string, rate int, call func(context.Context, int) error) {
		before := readCPUMetric(t, b.manager.Webhook)
		r := callAtRate(t.Context(), rate, b.duration, call)
		cpu := readCPUMetric(t, b.manager.Webhook) - before
		fmt.Fprintf(&b.report, "| %s, %d per second | %s | %s | %.2f ms |\n",
			calls, rate, cluster, r.format(), 1000*cpu/float64(r.count()))
		if err := r.firstError(); err != nil {
			t.Errorf("%s, %s: %v", calls, cluster, err)
		}
	}
	measureWebhook := func(cluster string) {
		measure("To the webhook", cluster, callsPerSecond, b.webhook.call)
		measure("To an unknown path of the webhook", cluster, callsPerSecond, b.webhook.callUnknownPath)
	}
	measureWebhook("Idle")
	measure("Dry runs to the API server", "Idle", dryRunsPerSecond, throughAPI)
	stop := b.startBusyLoop(t)
	measureWebhook("Busy")
	measure("Dry runs to the API server", "Busy", dryRunsPerSecond, throughAPI)
	if runtime.NumCPU() > 1 {
		reunite := divideCores(t, b.manager.Webhook.PID())
		measureWebhook("Busy, on other cores")
		reunite()
	}
	gangs, seconds := stop()
	fmt.Fprintf(&b.report, "\nThe busy cluster created and finished %d gangs of %d ranks in %.0f s.\n\n",
		gangs, busyLoad.Ranks, seconds)
}

// measureThroughput measures the calls per second of a webhook on one core. The CPU time does not depend on
// the load of the machine.
func (b *admissionBench) measureThroughput(t *testing.T) {
	t.Helper()
	b.manager.Webhook.Stop(t)
	t.Setenv("GOMAXPROCS", "1")
	b.manager.Webhook.Start(t)
	before := readCPUMetric(t, b.manager.Webhook)
	begin := time.Now()
	r := callWithoutPause(t.Context(), throughputClients, b.duration, b.webhook.call)
	seconds, cpu := time.Since(begin).Seconds(), readCPUMetric(t, b.manager.Webhook)-before
	if err := r.firstError(); err != nil {
		t.Errorf("throughput: %v", err)
	}
	calls := float64(r.count())
	fmt.Fprintf(&b.report, "A webhook on one core: %.0f calls per second, %.2f ms of CPU time per call, "+
		"or %.0f calls per second of CPU time.\n", calls/seconds, 1000*cpu/calls, calls/cpu)
}

func (b *admissionBench) createNamespace(t *testing.T, name string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := b.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// checkWebhookReads checks that the webhook has read no object whose number grows with the cluster.
func checkWebhookReads(t *testing.T, events []auditEvent) {
	t.Helper()
	requests := map[string]int{}
	for _, e := range events {
		requests[e.Verb+" "+e.ObjectRef.Resource]++
	}
	t.Logf("Requests of the webhook to the API server: %v", requests)
	if len(requests) == 0 {
		t.Error("the log contains no request of the webhook")
	}
	for _, resource := range []string{"pods", "jobs", "statefulsets", "services", "namespaces", "nodes", "events"} {
		for request, count := range requests {
			if strings.HasSuffix(request, " "+resource) {
				t.Errorf("the webhook made %d requests %q, want none", count, request)
			}
		}
	}
}
