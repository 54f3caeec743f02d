package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

const (
	// callInterval is the time between two calls: 20 calls per second.
	callInterval = 50 * time.Millisecond
	// callTimeout is longer than the timeout of any webhook.
	callTimeout = 60 * time.Second
)

// The causes of errors that an API server that restarts explains.
const (
	causeNoAnswer = "no answer of the API server"
	causeNotReady = "rejected by the API server"
)

// dryRun are the options of all calls.
var dryRun = []string{metav1.DryRunAll}

// call is one kind of call. It returns the workload as the API server admitted it.
type call func(ctx context.Context, n int) (metav1.Object, error)

// newCalls returns the kinds of calls in a namespace that contains one Job and one StatefulSet.
func newCalls(client kubernetes.Interface, namespace string) map[string]call {
	jobs, sets := client.BatchV1().Jobs(namespace), client.AppsV1().StatefulSets(namespace)
	newPatch := func(n int) []byte { // the label causes the API server to call the webhook for any update
		return fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/update":"%d"}}}`, n)
	}
	return map[string]call{
		"create Job": func(ctx context.Context, n int) (metav1.Object, error) {
			return jobs.Create(ctx, newJob(fmt.Sprintf("new-%d", n)), metav1.CreateOptions{DryRun: dryRun})
		},
		"create StatefulSet": func(ctx context.Context, n int) (metav1.Object, error) {
			return sets.Create(ctx, newStatefulSet(fmt.Sprintf("new-%d", n)), metav1.CreateOptions{DryRun: dryRun})
		},
		"update Job": func(ctx context.Context, n int) (metav1.Object, error) {
			return jobs.Patch(ctx, existing, types.MergePatchType, newPatch(n), metav1.PatchOptions{DryRun: dryRun})
		},
		"update StatefulSet": func(ctx context.Context, n int) (metav1.Object, error) {
			return sets.Patch(ctx, existing, types.MergePatchType, newPatch(n), metav1.PatchOptions{DryRun: dryRun})
		},
	}
}

// existing is the name of the workloads that are updated.
const existing = "existing"

func newPodSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}}
}

func newMetadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{gang.LabelFramework: "pytorch"}}
}

func newJob(name string) *batchv1.Job {
	pod := newPodSpec()
	pod.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: newMetadata(name), Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4), Suspend: ptr.To(true),
		Template: corev1.PodTemplateSpec{Spec: pod},
	}}
}

func newStatefulSet(name string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{ObjectMeta: newMetadata(name), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](4), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPodSpec()},
	}}
}

// results are the results of all calls. Its methods are safe for concurrent use.
type results struct {
	mu         sync.Mutex
	begin      time.Time
	counts     map[string]int // by kind of call
	latencies  []time.Duration
	failures   map[string]int // by cause
	notCounted map[string]int // by cause
	outages    []outage
	uninjected int
	examples   map[string]string
}

func newResults() *results {
	return &results{
		begin: time.Now(), counts: map[string]int{}, failures: map[string]int{}, notCounted: map[string]int{},
		examples: map[string]string{},
	}
}

// makeCalls makes 20 calls per second until ctx ends, and returns when all calls have ended. A slow call
// does not delay the next one.
func (r *results) makeCalls(ctx context.Context, calls map[string]call) {
	kinds := slices.Sorted(maps.Keys(calls))
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(callInterval)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		kind := kinds[n%len(kinds)]
		running.Go(func() {
			callCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
			defer cancel()
			start := time.Now()
			object, err := calls[kind](callCtx, n)
			r.record(kind, start, time.Now(), object, err)
		})
	}
}

// outage is a time in which the API server restarts. The end is zero while it lasts.
type outage struct{ start, end time.Time }

// overlaps reports whether a call was made during an outage.
func (o outage) overlaps(start, end time.Time) bool {
	return !o.start.After(end) && (o.end.IsZero() || !o.end.Before(start))
}

// recordOutage calls restart and records its duration as an outage.
func (r *results) recordOutage(restart func() error) error {
	r.mu.Lock()
	r.outages = append(r.outages, outage{start: time.Now()})
	i := len(r.outages) - 1
	r.mu.Unlock()
	err := restart()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outages[i].end = time.Now()
	return err
}

// record records the result of a call. An error during an outage counts only if it is that of a webhook.
func (r *results) record(kind string, start, end time.Time, object metav1.Object, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		cause, isOfWebhook := classifyError(err)
		if _, known := r.examples[cause]; !known {
			r.examples[cause] = fmt.Sprintf("%s after %.1f s, in %.1f s: %v",
				kind, start.Sub(r.begin).Seconds(), end.Sub(start).Seconds(), err)
		}
		isOutage := slices.ContainsFunc(r.outages, func(o outage) bool { return o.overlaps(start, end) })
		if isOutage && !isOfWebhook {
			r.notCounted[cause]++
			return
		}
		r.failures[cause]++
	} else if object.GetAnnotations()[gang.AnnotationInjected] == "" {
		r.uninjected++
	} else {
		r.latencies = append(r.latencies, end.Sub(start))
	}
	r.counts[kind]++
}

// webhookCauses are the causes of errors of a webhook, with a part of their message.
var webhookCauses = []struct{ cause, part string }{
	{"webhook: certificate", "x509"},
	{"webhook: no endpoints", "no endpoints available"},
	{"webhook: connection refused", "connection refused"},
	{"webhook: connection reset", "connection reset"},
	{"webhook: no route", "no route to host"},
	{"webhook: timeout", "deadline exceeded"},
	{"webhook: connection closed", "EOF"},
	{"webhook: other", ""},
}

// classifyError returns the cause of an error, and whether the error is that of a webhook.
func classifyError(err error) (cause string, isOfWebhook bool) {
	var status apierrors.APIStatus
	text := err.Error()
	switch {
	case !errors.As(err, &status):
		return causeNoAnswer, false
	case strings.Contains(text, "denied the request"):
		return "webhook: denied", true
	case !strings.Contains(text, "failed calling webhook"):
		return causeNotReady, false
	}
	i := slices.IndexFunc(webhookCauses, func(w struct{ cause, part string }) bool {
		return strings.Contains(text, w.part)
	})
	return webhookCauses[i].cause, true
}

// count returns the number of calls that count, and the number of them that failed.
func (r *results) count() (calls, failed int) {
	for _, n := range r.counts {
		calls += n
	}
	for _, n := range r.failures {
		failed += n
	}
	return calls, failed
}

// percentile returns the latency of successful calls below which a fraction of them is.
func (r *results) percentile(fraction float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	slices.Sort(r.latencies)
	return r.latencies[min(len(r.latencies)-1, int(fraction*float64(len(r.latencies))))]
}

// format returns the report.
func (r *results) format() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out strings.Builder
	calls, failed := r.count()
	fmt.Fprintf(&out, "%d calls, %d failed, %d admitted without injection; p50 %s, p99 %s\n",
		calls, failed, r.uninjected, r.percentile(0.5).Round(time.Millisecond), r.percentile(0.99).Round(time.Millisecond))
	for _, kind := range slices.Sorted(maps.Keys(r.counts)) {
		fmt.Fprintf(&out, "  %s: %d\n", kind, r.counts[kind])
	}
	write := func(title string, causes map[string]int) {
		for _, cause := range slices.Sorted(maps.Keys(causes)) {
			fmt.Fprintf(&out, "%s: %d times %s, first: %s\n", title, causes[cause], cause, r.examples[cause])
		}
	}
	write("failed", r.failures)
	write("not counted", r.notCounted)
	return out.String()
}
