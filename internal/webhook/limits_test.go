package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"rollcall.training/internal/connections"
)

// newTestReview returns a request for a Job with the given object.
func newTestReview(operation admissionv1.Operation, object string) string {
	return fmt.Sprintf(`{"request":{"uid":"u-1","kind":{"group":"batch","version":"v1","kind":"Job"},`+
		`"operation":%q,"object":%s}}`, operation, object)
}

// sendReview sends a request to a handler.
func sendReview(ctx context.Context, h http.Handler, review string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, MutatePath, strings.NewReader(review))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(w, r)
	return w
}

// TestTooManyRequests checks the response to a request that gets no slot.
func TestTooManyRequests(t *testing.T) {
	for name, c := range map[string]struct {
		operation admissionv1.Operation
		wantCode  int
	}{
		"a creation is denied with a code that makes clients retry": {
			operation: admissionv1.Create, wantCode: http.StatusOK,
		},
		"an update of a Job fails, so that the API server ignores the webhook": {
			operation: admissionv1.Update, wantCode: http.StatusTooManyRequests,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := connections.NewLimiter(1)
				proceed := make(chan struct{})
				h := limitRequests(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-proceed }))
				go sendReview(t.Context(), h, newTestReview(admissionv1.Create, "{}"))
				synctest.Wait()
				w := sendReview(t.Context(), h, newTestReview(c.operation, "{}"))
				close(proceed)
				if w.Code != c.wantCode {
					t.Fatalf("code %d, want %d: %s", w.Code, c.wantCode, w.Body)
				}
				if c.wantCode != http.StatusOK {
					return
				}
				var review admissionv1.AdmissionReview
				if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
					t.Fatal(err)
				}
				r := review.Response
				if r.Allowed || r.UID != "u-1" || r.Result.Code != http.StatusTooManyRequests ||
					r.Result.Details.RetryAfterSeconds != retryAfterSeconds {
					t.Errorf("the response is %+v", r)
				}
			})
		})
	}
}

// TestAttackLongName checks that a request with a long name counts in its namespace.
func TestAttackLongName(t *testing.T) {
	request := &admissionv1.AdmissionRequest{UID: "1", Name: strings.Repeat("n", 1<<20), Namespace: "team"}
	request.Object.Raw = []byte(`{"metadata":{"namespace":"other"}}`)
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	if got := readNamespace(body); got != "team" {
		t.Errorf("the namespace is %q", got)
	}
}

// TestSlowRequest checks that a request that does not arrive in time has a code that makes clients retry.
func TestSlowRequest(t *testing.T) {
	h := limitRequests(connections.NewLimiter(1), http.NotFoundHandler())
	beginning := strings.NewReader(newTestReview(admissionv1.Create, "{}"))
	body := io.MultiReader(beginning, iotest.ErrReader(os.ErrDeadlineExceeded))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, MutatePath, body))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
		t.Fatalf("code %d, %q: %v", w.Code, w.Body, err)
	}
	if r := review.Response; r.Allowed || r.UID != "u-1" || r.Result.Code != http.StatusTooManyRequests {
		t.Errorf("the response is %+v", r)
	}
}

// TestCheckText checks the bounds of the text of a request.
func TestCheckText(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"ordinary object":            {text: `{"a":[1,2,{"b":"x"}]}`},
		"delimiters in a string":     {text: `{"a":"` + strings.Repeat("[,{", maxValues) + `"}`},
		"escaped quote in a string":  {text: `{"a":"\"` + strings.Repeat("[,{", maxValues) + `"}`},
		"more closing brackets":      {text: strings.Repeat("]", 2*maxDepth)},
		"list of the maximum length": {text: "[" + strings.Repeat("0,", maxElements-1) + "0]"},
		"list that is too long": {
			text: "[" + strings.Repeat("0,", maxElements) + "0]",
			want: "a list or an object with more than 5000 elements",
		},
		"object that is too large": {
			text: "{" + strings.Repeat(`"a":0,`, maxElements) + "}",
			want: "a list or an object with more than 5000 elements",
		},
		"many short lists": {
			text: "[" + strings.Repeat("["+strings.Repeat("0,", 99)+"0],", maxValues/100) + "0]",
			want: "more than 50000 values",
		},
		"maximum nesting": {text: strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)},
		"nesting that is too deep": {
			text: strings.Repeat("[", maxDepth+1),
			want: "more than 100 nested lists and objects",
		},
		"long number in a string": {
			text: `{"cpu":"` + strings.Repeat("9", maxDigits+1) + `"}`,
			want: "a number of more than 1000 digits",
		},
		"long number with a fraction": {
			text: "9." + strings.Repeat("9", maxDigits),
			want: "a number of more than 1000 digits",
		},
		"many short numbers":                           {text: strings.Repeat("9 ", maxDigits+1)},
		"many short numbers with escapes between them": {text: `"` + strings.Repeat(`2024\n2025\u0026`, maxDigits) + `"`},
		"escaped digit": {
			text: `"\u0039e2147483647"`,
			want: "an escaped digit, sign, decimal point or letter e",
		},
		"escaped letter": {
			text: `"9\u00652147483647"`,
			want: "an escaped digit, sign, decimal point or letter e",
		},
		"text that ends in an escape": {text: `"\`},
		"large exponent": {
			text: `{"cpu":"1e-2147483647"}`,
			want: "numbers with exponents of more than 1000000 together",
		},
		"many exponents": {
			text: `[` + strings.Repeat(`0.E+999999,`, 2) + `0]`,
			want: "numbers with exponents of more than 1000000 together",
		},
		"exponent that exceeds 64 bits": {
			text: `"5e4294967296000000000000"`,
			want: "numbers with exponents of more than 1000000 together",
		},
		"number without quotes": {
			text: `{"cpu": 5e4294967296 }`,
			want: "numbers with exponents of more than 1000000 together",
		},
		"negative number": {
			text: `["-5e-4294967296"]`,
			want: "numbers with exponents of more than 1000000 together",
		},
		"digests and names that contain an e": {
			text: `"a1e99999999","1e99999999a","e99999999","--e99999999","1e2e99999999","0xe99999999","1ee99999999"`,
		},
		"UIDs that contain a number": {
			text: `["9a8b7c6d-1234-4e5f-9876-12e456789012", "9a8b7c6d-1234-4567-987e-123456789012"]`,
		},
		"a number in a text": {text: `"between 1e99999999 and 2"`},
	} {
		if diff := cmp.Diff(c.want, checkText([]byte(c.text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCheckTextOfUIDs checks that no UID is taken for a number. About one of 200 contains a large exponent.
func TestCheckTextOfUIDs(t *testing.T) {
	for range 20_000 {
		text := fmt.Sprintf(`{"uid":%q}`, uuid.NewUUID())
		if problem := checkText([]byte(text)); problem != "" {
			t.Fatalf("%s: %s", text, problem)
		}
	}
}

// TestTooLargeRequest checks that a request beyond the bound is denied before it is decoded.
func TestTooLargeRequest(t *testing.T) {
	h := limitRequests(connections.NewLimiter(1), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the request was handled")
	}))
	for name, object := range map[string]string{
		"long string": `"` + strings.Repeat("x", maxRequestBytes) + `"`,
		"long list":   "[" + strings.Repeat("0,", maxElements) + "0]",
	} {
		w := sendReview(t.Context(), h, newTestReview(admissionv1.Create, object))
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r := review.Response; r.Allowed || r.UID != "u-1" || r.Result.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: the response is %+v", name, r)
		}
	}
}
