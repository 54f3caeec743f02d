package controller

import (
	"testing"
	"time"
)

// TestPodEventThrottle checks that many events of pods cause one pass, and that an event after a
// quiet period causes a pass immediately.
func TestPodEventThrottle(t *testing.T) {
	var p sessions
	if d := p.remainingDelay(trainRequest, testStartTime); d != 0 {
		t.Errorf("the first pass waits %s", d)
	}
	for pods, want := range map[int]time.Duration{
		0:     0,
		8:     4 * time.Millisecond,
		256:   128 * time.Millisecond,
		10000: maxPodEventDelay,
	} {
		p.recordPass(trainRequest, pods, testStartTime)
		if d := p.remainingDelay(trainRequest, testStartTime); d != want {
			t.Errorf("%d pods: the next pass waits %s, want %s", pods, d, want)
		}
		if d := p.remainingDelay(trainRequest, testStartTime.Add(want)); d != 0 {
			t.Errorf("%d pods: after %s, the next pass waits %s", pods, want, d)
		}
	}
	p.forgetGang(trainRequest, true)
	if d := p.remainingDelay(trainRequest, testStartTime); d != 0 {
		t.Errorf("the first pass of another gang waits %s", d)
	}
}
