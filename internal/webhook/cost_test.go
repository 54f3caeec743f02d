package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/testing/adversarial"
	"rollcall.training/internal/webhook"
)

// maxAllocatedBytes is the maximum number of bytes that one request may allocate, including garbage.
const maxAllocatedBytes = 64 << 20

// newEndpoints returns all endpoints as the manager serves them, with a policy that has defaults.
func newEndpoints(t testing.TB) http.Handler {
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	enforcer := newEnforcer(&testPolicies{policy: readPolicy(t, "cluster: {defaults: {env: {NCCL_DEBUG: INFO}}}")})
	webhook.Register(server, webhook.Options{Engine: engine, Policy: enforcer, Draining: func() bool { return false }})
	return server.WebhookMux()
}

// newReview returns the text of a request. An update has the object as the old and as the new object.
func newReview(kind gang.Kind, operation admissionv1.Operation, object string) []byte {
	group := "batch"
	if kind == gang.StatefulSet {
		group = "apps"
	}
	old := ""
	if operation == admissionv1.Update {
		old = `,"oldObject":` + object
	}
	return []byte(fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u",`+
		`"kind":{"group":%q,"version":"v1","kind":%q},"namespace":"team","operation":%q,"options":{},"object":%s%s}}`,
		group, kind, operation, object, old))
}

// cost is what one request costs.
type cost struct {
	cpu       time.Duration
	allocated uint64
	response  int
}

// measureCost sends one request to an endpoint.
func measureCost(t testing.TB, endpoints http.Handler, path string, review []byte) (cost, *httptest.ResponseRecorder) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(review))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := readCPUTime(t)
	endpoints.ServeHTTP(w, r)
	cpu = readCPUTime(t) - cpu
	runtime.ReadMemStats(&after)
	return cost{cpu: cpu, allocated: after.TotalAlloc - before.TotalAlloc, response: w.Body.Len()}, w
}

// readCPUTime returns the CPU time of this process.
func readCPUTime(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// adversarialCalls are the calls that a workload can cause.
var adversarialCalls = []struct {
	path      string
	operation admissionv1.Operation
}{
	{webhook.MutatePath, admissionv1.Create},
	{webhook.ValidatePath, admissionv1.Create},
	{webhook.MutatePath, admissionv1.Update},
	{webhook.ValidatePath, admissionv1.Update},
	{webhook.MutatePodPath, admissionv1.Create},
}

// TestAdmissionCost checks that no request of up to 3 MiB allocates more than maxAllocatedBytes on any
// endpoint. It prints the CPU time, which it does not check, because the time depends on the machine.
func TestAdmissionCost(t *testing.T) {
	endpoints := newEndpoints(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "INPUT\tREQUEST\tCPU\tALLOCATED\tRESPONSE\tMOST EXPENSIVE CALL\tCODES")
	for _, input := range adversarial.Inputs() {
		var most cost
		var mostExpensive string
		var codes []int
		for _, call := range adversarialCalls {
			c, response := measureCost(t, endpoints, call.path, newReview(input.Kind, call.operation, input.Object))
			codes = append(codes, readResponseCode(t, response))
			if c.allocated > maxAllocatedBytes {
				t.Errorf("%s, %s %s: %d MiB were allocated, want at most %d MiB",
					input.Name, call.operation, call.path, c.allocated>>20, maxAllocatedBytes>>20)
			}
			if c.allocated >= most.allocated {
				mostExpensive = fmt.Sprintf("%s %s", call.operation, call.path)
			}
			most = cost{max(most.cpu, c.cpu), max(most.allocated, c.allocated), max(most.response, c.response)}
		}
		fmt.Fprintf(w, "%s\t%d KiB\t%d ms\t%.1f MiB\t%d KiB\t%s\t%v\n", input.Name, len(input.Object)>>10,
			most.cpu.Milliseconds(), float64(most.allocated)/(1<<20), most.response>>10, mostExpensive, codes)
	}
	_ = w.Flush()
	t.Logf("\n%s", table.String())
}

// FuzzAdmissionCost checks that the memory of a request is proportional to its length.
func FuzzAdmissionCost(f *testing.F) {
	for _, input := range adversarial.Inputs() {
		if len(input.Object) < 10<<10 { // the fuzzer is slow with long inputs
			f.Add([]byte(input.Object), input.Kind == gang.StatefulSet, uint8(0))
		}
	}
	endpoints := newEndpoints(f)
	f.Fuzz(func(t *testing.T, object []byte, set bool, call uint8) {
		kind := gang.Job
		if set {
			kind = gang.StatefulSet
		}
		c := adversarialCalls[int(call)%len(adversarialCalls)]
		spent, _ := measureCost(t, endpoints, c.path, newReview(kind, c.operation, string(object)))
		// A framework can need the addresses of all ranks, which depend on a number.
		if budget := uint64(48<<20 + 1000*len(object)); spent.allocated > min(budget, maxAllocatedBytes) {
			t.Errorf("%d bytes were allocated for a request of %d bytes", spent.allocated, len(object))
		}
	})
}

// readResponseCode returns the HTTP code of a denial, 200 for an allowed request, and the negative HTTP
// code of a response that is not an admission review.
func readResponseCode(t testing.TB, w *httptest.ResponseRecorder) int {
	t.Helper()
	if w.Code != http.StatusOK {
		return -w.Code
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("decoding the response: %v", err)
	}
	if review.Response.Allowed {
		return http.StatusOK
	}
	return int(review.Response.Result.Code)
}
