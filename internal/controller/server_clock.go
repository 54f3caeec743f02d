package controller

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The bounds of a [ServerClock].
const (
	// maxClockOffset is the offset that a ServerClock ignores. The header Date has a resolution of one second,
	// and a response of maxResponseTime adds half of its duration.
	maxClockOffset = 2 * time.Second
	// maxResponseTime is the duration beyond which a response is ignored: it could have any time in between.
	maxResponseTime = time.Second
	// clockSmoothing is the weight of the former responses; that of a response is 1.
	clockSmoothing = 7
)

// ServerClock is a clock with the time of the API server, to the second. The API server sets the times of objects,
// and Rollcall compares these times with the present: a controller whose clock is ahead by a minute would ignore
// a terminating pod at once. ServerClock measures the offset of the local clock in the header Date of responses.
// It is safe for concurrent use.
type ServerClock struct {
	local clock.PassiveClock

	mu sync.Mutex
	// offset is the smoothed time by which the API server is ahead of the local clock. isMeasured is false before
	// the first response.
	offset     time.Duration
	isMeasured bool
	// exceeds is true if the offset exceeds maxClockOffset.
	exceeds bool
}

// NewServerClock returns a clock that has the time of the local clock until [ServerClock.WrapTransport] has observed
// a response.
func NewServerClock(local clock.PassiveClock) *ServerClock { return &ServerClock{local: local} }

// Now implements [clock.PassiveClock].
func (c *ServerClock) Now() time.Time { return c.local.Now().Add(c.currentOffset()) }

// Since implements [clock.PassiveClock].
func (c *ServerClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// currentOffset returns the offset to the second; 0 if it is too small to count.
func (c *ServerClock) currentOffset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.exceeds {
		return 0
	}
	return c.offset.Round(time.Second)
}

// WrapTransport returns a transport that measures the offset in the responses of another transport.
func (c *ServerClock) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return clockTransport{clock: c, next: next}
}

// clockTransport is the transport of [ServerClock.WrapTransport].
type clockTransport struct {
	clock *ServerClock
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t clockTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := t.clock.local.Now()
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	duration := t.clock.local.Since(sent)
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil && duration <= maxResponseTime {
		const halfOfResolution = time.Second / 2
		t.clock.record(date.Add(halfOfResolution).Sub(sent.Add(duration / 2)))
	}
	return response, nil
}

// WrappedRoundTripper returns the wrapped transport, whose connections k8s.io/apimachinery/pkg/util/net closes.
func (t clockTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// record adds a measured offset.
func (c *ServerClock) record(measured time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isMeasured {
		measured = (c.offset*clockSmoothing + measured) / (clockSmoothing + 1)
	}
	c.offset, c.isMeasured = measured, true
	clockOffset.WithLabelValues().Set(measured.Seconds())
	exceeds := measured.Abs() > maxClockOffset
	if exceeds && !c.exceeds {
		log.Log.Info("Clock differed from the clock of the API server, which is used instead",
			"offset", measured.Round(time.Second).String())
	}
	c.exceeds = exceeds
}
