package controller

import (
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/lifecycle"
)

// response is a response of the API server: the offset of its clock, and how long the local clock waits for it.
type response struct {
	offset   time.Duration
	duration time.Duration
	// hasDate is false for a response without the header Date.
	hasDate bool
}

// fakeTransport answers requests while a fake clock advances.
type fakeTransport struct {
	clock *clocktesting.FakePassiveClock
	next  response
}

func (f *fakeTransport) RoundTrip(*http.Request) (*http.Response, error) {
	f.clock.SetTime(f.clock.Now().Add(f.next.duration))
	header := http.Header{}
	if f.next.hasDate {
		header.Set("Date", f.clock.Now().Add(f.next.offset).UTC().Format(http.TimeFormat))
	}
	return &http.Response{Header: header}, nil
}

// newMeasuredClock returns a clock that has observed responses, and its local clock.
func newMeasuredClock(t *testing.T, responses ...response) (*ServerClock, *clocktesting.FakePassiveClock) {
	t.Helper()
	local := clocktesting.NewFakePassiveClock(testStartTime)
	c := NewServerClock(local)
	transport := &fakeTransport{clock: local}
	wrapped := c.WrapTransport(transport)
	for _, transport.next = range responses {
		if _, err := wrapped.RoundTrip(nil); err != nil { //nolint:bodyclose // the fake response has none
			t.Fatal(err)
		}
		local.SetTime(local.Now().Add(2 * time.Second))
	}
	return c, local
}

// TestServerClock checks which offsets of the API server count.
func TestServerClock(t *testing.T) {
	repeat := func(n int, r response) []response {
		var out []response
		for range n {
			out = append(out, r)
		}
		return out
	}
	ahead := response{offset: 5 * time.Minute, duration: 10 * time.Millisecond, hasDate: true}
	behind := response{offset: -90 * time.Second, duration: 10 * time.Millisecond, hasDate: true}
	exact := response{duration: 10 * time.Millisecond, hasDate: true}
	late := response{offset: 10 * time.Second, duration: 10 * time.Millisecond, hasDate: true}
	for name, c := range map[string]struct {
		responses []response
		want      time.Duration
	}{
		"no response":                            {},
		"equal clocks":                           {responses: []response{exact}},
		"API server is ahead":                    {responses: []response{ahead}, want: 5 * time.Minute},
		"API server is behind":                   {responses: []response{behind}, want: -90 * time.Second},
		"offset of a second does not count":      {responses: []response{{offset: time.Second, hasDate: true}}},
		"response without a date":                {responses: []response{{offset: time.Hour}}},
		"response of a second is precise enough": {responses: []response{{duration: time.Second, hasDate: true}}},
		"one different response counts little":   {responses: append(repeat(20, exact), late)},
		"offset of four seconds counts": {
			responses: []response{{offset: 4 * time.Second, hasDate: true}}, want: 4 * time.Second,
		},
		"slow response": {
			responses: []response{{offset: time.Hour, duration: 2 * time.Second, hasDate: true}},
		},
		"clock is set while the controller runs": {
			responses: append(repeat(20, exact), repeat(60, ahead)...), want: 5 * time.Minute,
		},
		"clock is corrected after it was wrong": {responses: append(repeat(20, behind), repeat(60, exact)...)},
	} {
		t.Run(name, func(t *testing.T) {
			server, local := newMeasuredClock(t, c.responses...)
			var _ clock.PassiveClock = server
			got := server.Now().Sub(local.Now())
			if difference := (got - c.want).Abs(); difference > time.Second || c.want == 0 && got != 0 {
				t.Errorf("the clock has an offset of %s, want %s", got, c.want)
			}
			if since := server.Since(local.Now()); since != got {
				t.Errorf("since now: %s, want %s", since, got)
			}
		})
	}
}

// TestClockOffsetMetric checks that the metric has the measured offset, even if it is too small to count.
func TestClockOffsetMetric(t *testing.T) {
	newMeasuredClock(t, response{offset: time.Second, hasDate: true})
	if got := testutil.ToFloat64(clockOffset.WithLabelValues()); got < 0.5 || got > 1.5 {
		t.Errorf("the metric is %v, want about 1", got)
	}
}

// TestControllerWithWrongClock checks that a controller whose clock is ahead does not restart a gang while a pod
// still has its grace period.
func TestControllerWithWrongClock(t *testing.T) {
	job := newRestartingJob(t)
	job.Status.Terminating = ptr.To[int32](1)
	w := newTestCluster(t, job, newLostPod(job))
	server, local := newMeasuredClock(t, response{offset: -10 * time.Minute, hasDate: true})
	w.Clock = server
	local.SetTime(testStartTime.Add(10*time.Minute + time.Second))
	after := w.reconcileOnce(t, torchRequest)
	if after < lostPodGracePeriod || after > lostPodGracePeriod+lifecycle.StuckPodGracePeriod {
		t.Errorf("the next pass is due in %s, want the end of the grace period", after)
	}
	w.expectJobPhase(t, "train", lifecycle.Restarting)
	if _, status := w.getJob(t, "train"); overridesPhaseReason(status.Reason) {
		t.Errorf("status %+v", status)
	}
}
