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
	"rollcall.training/internal/policy"
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

// TestAttackFindings checks that a workload with many violations of one limit costs as little as any other.
func TestAttackFindings(t *testing.T) {
	const maxResponseBytes = 64 << 10
	const object = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"train","namespace":"team",` +
		`"labels":{"rollcall.training/framework":"generic"}},"spec":{"replicas":2,"template":{"spec":{"containers":` +
		`[{"name":"main","image":"evil/a"}],"volumes":[%s]}}}}`
	var volumes, repositories []string
	for i := range 4900 {
		volumes = append(volumes, fmt.Sprintf(`{"name":"v%d","image":{"reference":"evil/a%d"}}`, i, i))
	}
	for i := range 200 {
		repositories = append(repositories, fmt.Sprintf("registry.example.com/repository-%d/", i))
	}
	admitted := string(admit(t, gang.StatefulSet, fmt.Sprintf(object, strings.Join(volumes, ","))))
	for _, mode := range []policy.Mode{policy.ModeEnforce, policy.ModeWarn} {
		text := fmt.Sprintf("mode: %s\ncluster: {limits: {images: {allow: {'*': [%s]}}}}",
			mode, strings.Join(repositories, ", "))
		enforcer := newEnforcer(&testPolicies{policy: readPolicy(t, text)})
		server := ctrlwebhook.NewServer(ctrlwebhook.Options{})
		webhook.Register(server, webhook.Options{
			Engine: newEngine(), Policy: enforcer, Draining: func() bool { return false },
		})
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			review := newReview(gang.StatefulSet, operation, admitted)
			c, response := measureCost(t, server.WebhookMux(), webhook.ValidatePath, review)
			isDenied := mode == policy.ModeEnforce && operation == admissionv1.Create
			if code := readResponseCode(t, response); (code == http.StatusOK) == isDenied {
				t.Errorf("%s, %s: the code is %d", mode, operation, code)
			}
			if c.allocated > maxAllocatedBytes || c.response > maxResponseBytes {
				t.Errorf("%s, %s: %d MiB were allocated for a response of %d KiB",
					mode, operation, c.allocated>>20, c.response>>10)
			}
			if want := "the list omits 4881 more"; !strings.Contains(response.Body.String(), want) {
				t.Errorf("%s, %s: the response does not contain %q", mode, operation, want)
			}
		}
	}
}
