package controller

import (
	"testing"
	"time"
)

// TestPacer: a gang's pods are looked at once for many of their moves, and at once after a quiet time.
func TestPacer(t *testing.T) {
	var p pacer
	if d := p.pause(train, began); d != 0 {
		t.Errorf("the first look waits %s", d)
	}
	for pods, want := range map[int]time.Duration{0: 0, 8: 4 * time.Millisecond, 256: 128 * time.Millisecond, 10000: mostPause} {
		p.looked(train, pods, began)
		if d := p.pause(train, began); d != want {
			t.Errorf("%d pods: the next look waits %s, want %s", pods, d, want)
		}
		if d := p.pause(train, began.Add(want)); d != 0 {
			t.Errorf("%d pods: after %s, the next look waits %s", pods, want, d)
		}
	}
	p.forget(train)
	if len(p.last) > 0 || p.pause(train, began) != 0 {
		t.Errorf("kept: %v", p.last)
	}
}
