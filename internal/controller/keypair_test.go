package controller

import (
	"testing"
	"time"
)

// TestKeyPairRetry checks when the create request of a Secret is due.
func TestKeyPairRetry(t *testing.T) {
	now := testStartTime.Add(time.Hour)
	afterConflict := func() keyPairRetry {
		k := keyPairRetry{}.forOwner("service", 1)
		k.recordExists(now, now.Add(-time.Minute)) // the owner is a minute old
		return k
	}
	afterCreation := func() keyPairRetry {
		k := keyPairRetry{}.forOwner("service", 1)
		k.recordCreated()
		return k
	}
	for name, c := range map[string]struct {
		retry       keyPairRetry
		now         time.Time
		wantDelay   time.Duration
		wantCreated bool
	}{
		"first request is due":             {retry: keyPairRetry{}.forOwner("service", 1), now: now},
		"conflict delays the next request": {retry: afterConflict(), now: now, wantDelay: 15 * time.Second},
		"delay elapses":                    {retry: afterConflict(), now: now.Add(15 * time.Second)},
		"same owner and attempt keep the delay": {
			retry:     afterConflict().forOwner("service", 1),
			now:       now,
			wantDelay: 15 * time.Second,
		},
		"new owner is due":   {retry: afterConflict().forOwner("other", 1), now: now},
		"new attempt is due": {retry: afterConflict().forOwner("service", 2), now: now},
		"created Secret is not created again": {
			retry:       afterCreation().forOwner("service", 1),
			now:         now,
			wantCreated: true,
		},
		"created Secret is created again in a new attempt": {
			retry: afterCreation().forOwner("service", 2),
			now:   now,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.retry.remainingDelay(c.now); got != c.wantDelay || c.retry.created != c.wantCreated {
				t.Errorf("delay %s, created %v; want %s, %v", got, c.retry.created, c.wantDelay, c.wantCreated)
			}
		})
	}
}
