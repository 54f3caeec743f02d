package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rollcall.training/gang"
	"rollcall.training/internal/testing/podtest"
	"rollcall.training/test/installation"
)

const (
	// callVariables is the number of variables of the user in each Job.
	callVariables = 50
	// callTimeout bounds a call. API servers wait at most 30 s for a webhook.
	callTimeout = 30 * time.Second
)

// busyLoad is the load that a busy cluster creates and finishes again and again. Its pods run for
// busyRunTime.
var busyLoad = load{Gangs: 8, Ranks: 8}

const busyRunTime = time.Second

// runForAnnotation is the annotation of a pod with the time after which its simulated containers exit
// (test/cluster/kwok_stages.yaml).
const runForAnnotation = "test.rollcall.training/run-for"

// newLabeledJob returns a PyTorch Job with 50 variables.
func newLabeledJob(name, namespace string) *batchv1.Job {
	job := newJob(name, namespace, 8)
	job.Labels = map[string]string{gang.LabelFramework: "pytorch"}
	job.Spec.Template.Spec.Containers[0].Env = podtest.NewVariables(callVariables)
	return job
}

// dryRunJob creates a Job without storing it, and checks that it was injected.
func dryRunJob(ctx context.Context, client kubernetes.Interface, namespace string, n int) error {
	made, err := client.BatchV1().Jobs(namespace).Create(ctx, newLabeledJob(fmt.Sprintf("train-%d", n), namespace),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("creating a Job: %w", err)
	}
	if made.Annotations[gang.AnnotationInjected] == "" {
		return fmt.Errorf("the Job %s was not injected", made.Name)
	}
	return nil
}

// webhookClient calls the mutating endpoint of a webhook as API servers do.
type webhookClient struct {
	client *http.Client
	url    string
	// uid and body are those of each request. The request is encoded before the calls, so that they do not
	// include the CPU time for it.
	uid  types.UID
	body []byte
}

func newWebhookClient(t *testing.T, m *installation.Manager) webhookClient {
	t.Helper()
	// The library of API servers, which reuses connections and prefers HTTP/2.
	client, err := rest.HTTPClientFor(&rest.Config{
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Timeout: callTimeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := m.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(
		t.Context(), installation.Release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	review := newReview()
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatalf("encoding a request: %v", err)
	}
	return webhookClient{
		client: client, url: *configuration.Webhooks[0].ClientConfig.URL, uid: review.Request.UID, body: body,
	}
}

// send sends the creation of a Job.
func (c webhookClient) send(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.client.Do(req)
}

// callUnknownPath sends the creation of a Job to a path without an endpoint. The latency is that of the machine: of
// TLS, HTTP and two programs that wait for a core.
func (c webhookClient) callUnknownPath(ctx context.Context, _ int) error {
	resp, err := c.send(ctx, c.url+"/unknown")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNotFound {
		return fmt.Errorf("the response of an unknown path has code %d, want %d", resp.StatusCode, http.StatusNotFound)
	}
	return nil
}

// call sends the creation of a Job and checks that the response contains a patch.
func (c webhookClient) call(ctx context.Context, _ int) error {
	resp, err := c.send(ctx, c.url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("decoding a response with code %d: %w", resp.StatusCode, err)
	}
	r := answer.Response
	if r == nil || r.UID != c.uid || !r.Allowed || len(r.Patch) == 0 {
		return fmt.Errorf("the response has no patch: %+v", r)
	}
	return nil
}

// newReview returns the request of an API server for the creation of a Job.
func newReview() admissionv1.AdmissionReview {
	job := newLabeledJob("train", "team-a")
	job.APIVersion, job.Kind = batchv1.SchemeGroupVersion.String(), "Job"
	kind := metav1.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	resource := metav1.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	return admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:  "705ab4f5-6393-11e8-b7cc-42010a800002",
			Kind: kind, RequestKind: &kind, Resource: resource, RequestResource: &resource,
			Name: job.Name, Namespace: job.Namespace, Operation: admissionv1.Create,
			Object: runtime.RawExtension{Object: job},
		},
	}
}

// callResults are the results of calls. Its methods are safe for concurrent use.
type callResults struct {
	mu        sync.Mutex
	latencies []time.Duration
	errs      []error
}

// recordCall makes a call and records its result. The latency starts at the time at which the call is due.
func (r *callResults) recordCall(ctx context.Context, due time.Time, n int, call func(context.Context, int) error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := call(ctx, n)
	latency := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	r.latencies = append(r.latencies, latency)
}

// count returns the number of calls.
func (r *callResults) count() int { return len(r.latencies) + len(r.errs) }

// firstError returns an error with the number of errors and the first of them; nil without errors.
func (r *callResults) firstError() error {
	switch {
	case r.count() == 0:
		return errors.New("there were no calls")
	case len(r.errs) > 0:
		return fmt.Errorf("%d of %d calls failed: %w", len(r.errs), r.count(), r.errs[0])
	}
	return nil
}

// format returns the columns of a table: p50, p90, p99, the maximum, and the numbers of calls and errors.
func (r *callResults) format() string {
	if len(r.latencies) == 0 {
		return fmt.Sprintf("| | | | %d | %d", r.count(), len(r.errs))
	}
	slices.Sort(r.latencies)
	percentile := func(fraction float64) float64 {
		i := min(len(r.latencies)-1, int(fraction*float64(len(r.latencies))))
		return r.latencies[i].Seconds() * 1000
	}
	return fmt.Sprintf("%.1f ms | %.1f ms | %.1f ms | %.0f ms | %d | %d",
		percentile(0.5), percentile(0.9), percentile(0.99), percentile(1), r.count(), len(r.errs))
}

// callAtRate makes calls at a constant rate and returns when all have ended. A slow call does not delay the
// next one.
func callAtRate(
	ctx context.Context, rate int, duration time.Duration, call func(context.Context, int) error,
) *callResults {
	r := &callResults{}
	var running sync.WaitGroup
	begin, interval := time.Now(), time.Second/time.Duration(rate)
	for n := range int(duration / interval) {
		due := begin.Add(time.Duration(n) * interval)
		time.Sleep(time.Until(due))
		running.Go(func() { r.recordCall(ctx, due, n, call) })
	}
	running.Wait()
	return r
}

// callWithoutPause makes calls with a number of clients for a duration.
func callWithoutPause(
	ctx context.Context, clients int, duration time.Duration, call func(context.Context, int) error,
) *callResults {
	r := &callResults{}
	var running sync.WaitGroup
	end := time.Now().Add(duration)
	for range clients {
		running.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				r.recordCall(ctx, time.Now(), n, call)
			}
		})
	}
	running.Wait()
	return r
}

// startBusyLoop creates and finishes gangs until the returned function is called. That function returns the
// number of finished gangs and the duration in seconds.
func (b *admissionBench) startBusyLoop(t *testing.T) func() (gangs int, seconds float64) {
	t.Helper()
	const namespace = "admission-busy"
	b.createNamespace(t, namespace)
	stopping, stop := context.WithCancel(t.Context())
	ended, gangs, begin := make(chan error, 1), 0, time.Now()
	go func() {
		var err error
		for err == nil && stopping.Err() == nil {
			if err = b.runGangs(t.Context(), namespace, busyLoad); err == nil {
				gangs += busyLoad.Gangs
			}
		}
		ended <- err
	}()
	return func() (int, float64) {
		t.Helper()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the busy cluster: %v", err)
		}
		return gangs, time.Since(begin).Seconds()
	}
}

// runGangs creates gangs, waits until they have finished, and deletes them.
func (b *admissionBench) runGangs(ctx context.Context, namespace string, l load) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	jobs := b.client.BatchV1().Jobs(namespace)
	for i := range l.Gangs {
		job := newJob(fmt.Sprintf("busy-%d", i), namespace, int32(l.Ranks))
		job.Labels = map[string]string{gang.LabelFramework: "pytorch"}
		job.Spec.Template.Annotations = map[string]string{runForAnnotation: busyRunTime.String()}
		if _, err := jobs.Create(ctx, job, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating %s: %w", job.Name, err)
		}
	}
	err := pollUntil(ctx, "the gangs to finish", func(ctx context.Context) error {
		list, err := jobs.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Status.CompletionTime == nil {
				return fmt.Errorf("%s has not finished: %+v", list.Items[i].Name, list.Items[i].Status)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.deleteGangs(ctx, namespace)
}
