package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
)

// The bounds of a request. They apply to its text, before it is decoded: the Go types of a decoded list
// need up to 200 times as much memory as its text.
const (
	// maxRequestBytes is the maximum length of a request. API servers accept up to 3 MiB
	// (k8s.io/apiserver pkg/server, MaxRequestBodyBytes), and etcd stores up to 1.5 MiB of an object. An
	// update contains the object twice.
	maxRequestBytes = 2 << 20
	// headBytes is the length of the beginning of a request that contains the UID, the kind and the
	// operation. They and the namespace precede the object (k8s.io/api/admission/v1, AdmissionRequest).
	headBytes = 4 << 10
	// maxValues is the maximum number of JSON values in a request. A StatefulSet with 2,000 variables has
	// 28,000, including managedFields and the previous object.
	maxValues = 50_000
	// maxElements is the maximum number of elements of one list or object.
	maxElements = 5000
	// maxDigits is the maximum number of consecutive digits. The time to decode a resource quantity grows
	// faster than the number of its digits: a million digits take seconds.
	maxDigits = 1000
	// maxDepth is the maximum nesting of lists and objects. A pod template needs less than 30.
	maxDepth = 100
)

// The bounds of concurrency. A handler never waits, so more requests at the same time would only need
// more memory.
const (
	// maxConcurrentRequests is the number of requests that are handled at the same time.
	maxConcurrentRequests = 8
	// minQueueTime and maxQueueTime are how long a request waits for its slot: half of the time that API servers wait
	// for the response, which is from 1 to 30 seconds.
	minQueueTime = 500 * time.Millisecond
	maxQueueTime = 15 * time.Second
	// bodyTimeout is how long the body of a request may take to arrive. It is longer than a process can wait for its CPU
	// time, because a deadline that passes meanwhile refuses a request that has arrived. The bounds of [clients] limit
	// what slow clients occupy.
	bodyTimeout = 10 * time.Second
	// responseTimeout is how long a request may take until its client has read the response.
	responseTimeout = 10 * time.Second
	// retryAfterSeconds is the delay after which clients send a refused request again.
	retryAfterSeconds = 1
)

// limiter refuses requests that exceed a bound. All endpoints of a server share one limiter.
type limiter struct {
	clients *clients // of requests without a listener of their own
	slots   *slots
}

func newLimiter(concurrency int) *limiter {
	return &limiter{clients: newClients(), slots: newSlots(concurrency)}
}

// limitRequests returns a handler that passes on the requests within the bounds. It refuses the other
// requests with the HTTP code 413 or 429. A request gets its slot after it has arrived, so a slow client
// occupies only its connection and what it has sent.
func (l *limiter) limitRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setDeadlines(w, bodyTimeout, bodyTimeout+responseTimeout)
		c, end := l.clients.clientOf(r)
		defer end()
		body, err := readBody(w, r, c)
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			refuseRequest(w, r, body, newTooLarge(fmt.Sprintf("more than %d bytes", maxRequestBytes)))
			return
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			refuseRequest(w, r, body, newTooManyRequests("Rollcall did not receive the request in time"))
			return
		} else if errors.Is(err, errTooManyBytes) {
			refuseRequest(w, r, body, newTooManyRequests("Rollcall receives too many other requests"))
			return
		} else if err != nil {
			http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
			return
		}
		namespace := gjson.GetBytes(body[:min(len(body), headBytes)], "request.namespace").String()
		c.begin(queued)
		// A read of the connection that fails would end the request.
		setDeadlines(w, maxQueueTime+responseTimeout, maxQueueTime+responseTimeout)
		if !l.acquireSlot(r, c.peer, namespace) {
			refuseRequest(w, r, body, newTooManyRequests(
				fmt.Sprintf("Rollcall handles %d other requests", maxConcurrentRequests)))
			return
		}
		c.begin(handled)
		response := l.handle(h, w, r, body, namespace)
		setDeadlines(w, responseTimeout, responseTimeout)
		response.send(c)
	})
}

// handle handles a request, and returns its slot before the client reads the response.
func (l *limiter) handle(
	h http.Handler, w http.ResponseWriter, r *http.Request, body []byte, namespace string,
) *bufferedResponse {
	defer l.slots.release(namespace)
	response := &bufferedResponse{ResponseWriter: w, code: http.StatusOK}
	if problem := checkText(body); problem != "" {
		refuseRequest(response, r, body, newTooLarge(problem))
		return response
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	defer func() { r.Body = http.NoBody }() // the server keeps r until the client has read the response
	h.ServeHTTP(response, r)
	return response
}

// bufferedResponse keeps a response until it is sent.
type bufferedResponse struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter].
func (r *bufferedResponse) WriteHeader(code int) { r.code = code }

// Write implements [http.ResponseWriter].
func (r *bufferedResponse) Write(text []byte) (int, error) { return r.body.Write(text) }

// send sends the response to a client that has received none yet.
func (r *bufferedResponse) send(c *client) {
	c.begin(transferring)
	if !c.hold(r.body.Len()) {
		panic(http.ErrAbortHandler) // so many clients read no responses that the server closes the connection
	}
	r.ResponseWriter.WriteHeader(r.code)
	_, _ = r.ResponseWriter.Write(r.body.Bytes()) // the client no longer waits if this fails
}

// setDeadlines bounds the time in which a slow client keeps a goroutine. The server sets the deadlines of the next
// request on the connection.
func setDeadlines(w http.ResponseWriter, read, write time.Duration) {
	now := time.Now() //nolint:forbidigo // a deadline of the network
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(now.Add(read)) // the writers of tests have no deadlines
	_ = deadlines.SetWriteDeadline(now.Add(write))
}

// acquireSlot waits for one of the slots. It returns false if the request gets none in time, or if the client
// no longer waits for the response.
func (l *limiter) acquireSlot(r *http.Request, peer, namespace string) bool {
	ctx, cancel := context.WithTimeout(r.Context(), queueTime(r))
	defer cancel()
	return l.slots.acquire(ctx, peer, namespace)
}

// queueTime returns how long a request may wait for its slot. The time for which the API server waits for the
// response is a parameter of its request (k8s.io/client-go/rest, Request.Timeout).
func queueTime(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil {
		return minQueueTime
	}
	return min(max(timeout/2, minQueueTime), maxQueueTime)
}

// errTooManyBytes is the error of a body that exceeds the bounds of all bodies.
var errTooManyBytes = errors.New("too many bytes of other requests")

// readBody reads a request of up to maxRequestBytes. After an error it returns what it has read. It reads only the
// beginning of a request with a larger length.
func readBody(w http.ResponseWriter, r *http.Request, c *client) ([]byte, error) {
	if r.ContentLength > maxRequestBytes {
		head, _ := io.ReadAll(io.LimitReader(r.Body, headBytes)) // an incomplete head has no UID
		return head, &http.MaxBytesError{Limit: maxRequestBytes}
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), smallBytes)) + bytes.MinRead)
	_, err := body.ReadFrom(countingReader{Reader: http.MaxBytesReader(w, r.Body, maxRequestBytes), client: c})
	return body.Bytes(), err
}

// countingReader counts what a client has sent.
type countingReader struct {
	io.Reader
	client *client
}

// Read implements [io.Reader].
func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if !r.client.hold(n) {
		return n, errTooManyBytes
	}
	return n, err //nolint:wrapcheck // an io.Reader returns io.EOF
}

// checkText returns which bound a JSON text exceeds; empty if it exceeds none. The text need not be valid.
func checkText(text []byte) string {
	var s textScanner
	for i := 0; i < len(text); i++ {
		c := text[i]
		if s.inString && c == '\\' && i+1 < len(text) {
			i++ // the next character is not a delimiter
			if !bytes.HasPrefix(text[i:], escapedDigit) {
				s.digits = 0
			}
			continue
		}
		if s.countDigit(c); s.digits > maxDigits {
			return fmt.Sprintf("a number of more than %d digits", maxDigits)
		}
		if c == '"' {
			s.inString = !s.inString
		} else if !s.inString {
			s.countDelimiter(c)
		}
		switch {
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

// escapedDigit is the beginning of the escape of a digit, such as \u0039. Its own digits are counted instead.
var escapedDigit = []byte("u003")

// textScanner counts the values of a JSON text.
type textScanner struct {
	inString              bool
	depth, values, digits int
	// elements is the number of elements of each list or object that contains the current position. Index 0
	// is the text itself, and the last index is a nesting that is refused.
	elements [maxDepth + 2]int
}

// countDigit counts consecutive digits. A decimal point does not end a number.
func (s *textScanner) countDigit(c byte) {
	if c >= '0' && c <= '9' {
		s.digits++
	} else if c != '.' {
		s.digits = 0
	}
}

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
