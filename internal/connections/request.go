package connections

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// The bounds of concurrency. A handler never waits, so more requests at the same time would only need
// more memory.
const (
	// MaxRequests is the number of requests that are handled at the same time.
	MaxRequests = 8
	// minQueueTime and maxQueueTime are how long a request waits for its slot: half of the time that API servers wait
	// for the response, which is from 1 to 30 seconds.
	minQueueTime = 500 * time.Millisecond
	maxQueueTime = 15 * time.Second
	// bodyTimeout is how long the body of a request may take to arrive. It is longer than a process can wait for its CPU
	// time, because a deadline that passes meanwhile refuses a request that has arrived. The bounds of [clients] limit
	// what slow clients occupy.
	bodyTimeout = 10 * time.Second
	// responseTimeout is how long a response may take until its client has read it. API servers wait as long. A deadline
	// that passes before the process writes the response, because it gets no CPU time, would end a handled request.
	responseTimeout = 30 * time.Second
)

// ErrTooManyBytes is the error of a body that exceeds the bounds of all bodies.
var ErrTooManyBytes = errors.New("too many bytes of other requests")

// Limiter bounds the requests of a server. All endpoints of the server share it.
type Limiter struct {
	clients *clients // of requests without a listener of their own
	slots   *slots
}

// NewLimiter returns a limiter with a number of requests that are handled at the same time.
func NewLimiter(requests int) *Limiter {
	return &Limiter{clients: newClients(), slots: newSlots(requests)}
}

// Request is a request that occupies its connection, its bytes and, after [Request.AcquireSlot], its slot.
type Request struct {
	limiter   *Limiter
	client    *client
	namespace string
	writer    http.ResponseWriter
	request   *http.Request
	// End ends the request. The caller must call it.
	End func()
}

// Begin begins a request whose body may still be on its way.
func (l *Limiter) Begin(w http.ResponseWriter, r *http.Request) *Request {
	setDeadlines(w, bodyTimeout, bodyTimeout+responseTimeout)
	c, end := l.clients.clientOf(r)
	return &Request{limiter: l, client: c, writer: w, request: r, End: end}
}

// ReadBody reads the body of up to a number of bytes. After an error it returns what it has read. The error is
// [ErrTooManyBytes], [os.ErrDeadlineExceeded], [http.MaxBytesError] or one of the connection.
func (r *Request) ReadBody(limit int64) ([]byte, error) {
	var body bytes.Buffer
	body.Grow(int(min(max(r.request.ContentLength, 0), smallBytes)) + bytes.MinRead)
	limited := http.MaxBytesReader(r.writer, r.request.Body, limit)
	_, err := body.ReadFrom(countingReader{Reader: limited, client: r.client})
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
		return n, ErrTooManyBytes
	}
	return n, err // an io.Reader returns io.EOF without a wrapper
}

// AcquireSlot waits for a slot for a namespace, which may be empty. It returns false if the request gets none in
// time, or if the client no longer waits for the response. The caller of a request with a slot must call
// [Request.Serve].
func (r *Request) AcquireSlot(namespace string) bool {
	r.client.begin(queued)
	// A read of the connection that fails would end the request.
	setDeadlines(r.writer, maxQueueTime+responseTimeout, maxQueueTime+responseTimeout)
	ctx, cancel := context.WithTimeout(r.request.Context(), queueTime(r.request))
	defer cancel()
	r.namespace = namespace
	return r.limiter.slots.acquire(ctx, r.client.peer, namespace)
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

// Serve handles the request, returns its slot, and then sends the response.
func (r *Request) Serve(h http.Handler) {
	response := r.handle(h)
	setDeadlines(r.writer, responseTimeout, responseTimeout)
	response.send(r.client)
}

func (r *Request) handle(h http.Handler) *bufferedResponse {
	r.client.begin(handled)
	defer r.limiter.slots.release(r.namespace)
	response := &bufferedResponse{ResponseWriter: r.writer, code: http.StatusOK}
	h.ServeHTTP(response, r.request)
	r.request.Body = http.NoBody // the server keeps the request until the client has read the response
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
