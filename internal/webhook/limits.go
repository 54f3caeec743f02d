package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/connections"
)

// The bounds of a request. They apply to its text, before it is decoded: the Go types of a decoded list
// need up to 200 times as much memory as its text.
const (
	// maxRequestBytes is the maximum length of a request. API servers accept up to 3 MiB
	// (k8s.io/apiserver pkg/server, MaxRequestBodyBytes), and etcd stores up to 1.5 MiB of an object. An
	// update contains the object twice.
	maxRequestBytes = 2 << 20
	// headBytes is the length of the beginning of a request that contains the UID and the kind, and the operation unless
	// the name is long. They precede the object (k8s.io/api/admission/v1, AdmissionRequest).
	headBytes = 4 << 10
	// maxValues is the maximum number of JSON values in a request. A StatefulSet with 2,000 variables has
	// 28,000, including managedFields and the previous object.
	maxValues = 50_000
	// maxElements is the maximum number of elements of one list or object.
	maxElements = 5000
	// maxDigits is the maximum number of consecutive digits. The time to decode a resource quantity grows
	// faster than the number of its digits: a million digits take seconds.
	maxDigits = 1000
	// maxExponents is the maximum sum of the exponents of all numbers. The time and the memory to decode or to compare a
	// resource quantity grow with its exponent: 1e-2147483647 needs gigabytes, and 0e2147483647 seconds. API servers send
	// neither.
	maxExponents = 1_000_000
	// maxDepth is the maximum nesting of lists and objects. A pod template needs less than 30.
	maxDepth = 100
)

// retryAfterSeconds is the delay after which clients send a refused request again.
const retryAfterSeconds = 1

// limitRequests returns a handler that passes on the requests within the bounds of a limiter. It refuses the other
// requests with the HTTP code 413 or 429. A request gets its slot after it has arrived, so a slow client
// occupies only its connection and what it has sent.
func limitRequests(l *connections.Limiter, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := l.Begin(w, r)
		defer request.End()
		body, err := readBody(request, r)
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			refuseRequest(w, r, body, newTooLarge(fmt.Sprintf("more than %d bytes", maxRequestBytes)))
			return
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			refuseRequest(w, r, body, newTooManyRequests("Rollcall did not receive the request in time"))
			return
		} else if errors.Is(err, connections.ErrTooManyBytes) {
			refuseRequest(w, r, body, newTooManyRequests("Rollcall receives too many other requests"))
			return
		} else if err != nil {
			http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
			return
		}
		if !request.AcquireSlot(readNamespace(body)) {
			refuseRequest(w, r, body, newTooManyRequests(
				fmt.Sprintf("Rollcall handles %d other requests", connections.MaxRequests)))
			return
		}
		request.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if problem := checkText(body); problem != "" {
				refuseRequest(w, r, body, newTooLarge(problem))
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.ServeHTTP(w, r)
		}))
	})
}

// readNamespace returns the namespace of a request; empty without one. API servers send it before the object, so that
// the object is not read. The name precedes it and can have megabytes: admission runs before its validation.
func readNamespace(body []byte) string { return gjson.GetBytes(body, "request.namespace").String() }

// readBody reads a request of up to maxRequestBytes. After an error it returns what it has read. It reads only the
// beginning of a request with a larger length.
func readBody(request *connections.Request, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxRequestBytes {
		head, _ := io.ReadAll(io.LimitReader(r.Body, headBytes)) // an incomplete head has no UID
		return head, &http.MaxBytesError{Limit: maxRequestBytes}
	}
	return request.ReadBody(maxRequestBytes)
}

// checkText returns which bound a JSON text exceeds; empty if it exceeds none. The text need not be valid.
func checkText(text []byte) string {
	var s textScanner
	for i := 0; i < len(text); i++ {
		c := text[i]
		if s.inString && c == '\\' && i+1 < len(text) {
			i++ // the next character is not a delimiter
			if isEscapedNumber(text[i:]) {
				return "an escaped digit, sign, decimal point or letter e"
			}
			s.digits = 0
			continue
		}
		if s.countDigit(c); s.digits > maxDigits {
			return fmt.Sprintf("a number of more than %d digits", maxDigits)
		}
		if c == 'e' || c == 'E' {
			s.exponents += readExponent(text, i, s.inString)
		}
		if c == '"' {
			s.inString = !s.inString
		} else if !s.inString {
			s.countDelimiter(c)
		}
		switch {
		case s.exponents > maxExponents:
			return fmt.Sprintf("numbers with exponents of more than %d together", maxExponents)
		case s.depth > maxDepth:
			return fmt.Sprintf("more than %d nested lists and objects", maxDepth)
		case s.values > maxValues:
			return fmt.Sprintf("more than %d values", maxValues)
		case s.elements[s.depth] > maxElements:
			return fmt.Sprintf("a list or an object with more than %d elements", maxElements)
		}
	}
	return ""
}

// isEscapedNumber reports whether the text after a backslash is the escape of a character of a number, such as u0039.
// API servers escape no such character.
func isEscapedNumber(text []byte) bool {
	if len(text) < 5 || !bytes.HasPrefix(text, []byte("u00")) {
		return false
	}
	code, err := strconv.ParseUint(string(text[3:5]), 16, 8)
	return err == nil && strings.ContainsRune("0123456789+-.eE", rune(code))
}

// textScanner counts the values of a JSON text.
type textScanner struct {
	inString                         bool
	depth, values, digits, exponents int
	// elements is the number of elements of each list or object that contains the current position. Index 0
	// is the text itself, and the last index is a nesting that is refused.
	elements [maxDepth + 2]int
}

// countDigit counts consecutive digits. A decimal point does not end a number.
func (s *textScanner) countDigit(c byte) {
	if isDigit(c) {
		s.digits++
	} else if c != '.' {
		s.digits = 0
	}
}

// readExponent returns the size of the exponent after the letter e at an index. It returns 0 if no digit precedes the
// letter, and if the number is only a part of a string, such as of a UID.
func readExponent(text []byte, e int, inString bool) int {
	start := len(bytes.TrimRight(text[:e], ".0123456789"))
	if start == e {
		return 0
	}
	if start > 0 && isSign(text[start-1]) {
		start--
	}
	end := e + 1
	if end < len(text) && isSign(text[end]) {
		end++
	}
	exponent := 0
	for ; end < len(text) && isDigit(text[end]); end++ {
		exponent = min(10*exponent+int(text[end]-'0'), maxExponents+1)
	}
	if inString && (text[start-1] != '"' || end < len(text) && text[end] != '"') {
		return 0
	}
	return exponent
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isSign(c byte) bool { return c == '+' || c == '-' }

// countDelimiter counts lists, objects and their elements.
func (s *textScanner) countDelimiter(c byte) {
	switch c {
	case '{', '[':
		s.depth++
		s.values++
		s.elements[s.depth] = 1
	case '}', ']':
		s.depth = max(s.depth-1, 0)
	case ',':
		s.values++
		s.elements[s.depth]++
	}
}

func newTooManyRequests(cause string) metav1.Status {
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusTooManyRequests,
		Reason:  metav1.StatusReasonTooManyRequests,
		Message: cause + "; nothing is wrong with the object, so try again",
		// The API server sends the header Retry-After, and clients of Kubernetes send the request again.
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds},
	}
}

func newTooLarge(problem string) metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusRequestEntityTooLarge,
		Reason: metav1.StatusReasonRequestEntityTooLarge,
		Message: "the request contains " + problem + ", which exceeds a bound of Rollcall; " +
			"move data from the pod template and from annotations to a ConfigMap or to a volume",
	}
}

// refuseRequest denies a request. The parameter text is the beginning of the request.
//
// The denial is an admission response if possible, because its code and message reach the user. An
// update of a Job gets an HTTP error instead. The webhooks for these updates have the failure policy
// Ignore, so the API server continues without them: a denial could block the removal of a finalizer.
// JudgeUpdatePath gets a denial, because it receives only updates that change a judged field.
func refuseRequest(w http.ResponseWriter, r *http.Request, text []byte, status metav1.Status) {
	// A client that is still sending may not read the response.
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxRequestBytes))
	refusedRequests.WithLabelValues(string(status.Reason)).Inc()
	fields := gjson.GetManyBytes(text, "request.uid", "request.kind.kind", "request.operation")
	uid, kind, operation := fields[0].String(), gang.Kind(fields[1].String()), admissionv1.Operation(fields[2].String())
	isJobUpdate := kind == gang.Job && operation == admissionv1.Update
	if uid == "" || isJobUpdate && r.URL.Path != JudgeUpdatePath {
		http.Error(w, status.Message, int(status.Code))
		return
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: &admissionv1.AdmissionResponse{UID: types.UID(uid), Result: &status},
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		log.FromContext(r.Context()).Error(err, "Failed to write a response")
	}
}
