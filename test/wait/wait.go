package wait

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Timeout bounds each call of For. It is far longer than any successful wait takes.
	Timeout = 3 * time.Minute

	// interval is the pause between two calls of a check.
	interval = 50 * time.Millisecond
)

// For calls check until it returns nil. It fails and ends the test with the last error of check if
// that takes longer than Timeout or if the context of the test is canceled. what completes the
// sentence "waiting for ..." in the failure message. For must run in the goroutine of the test.
func For(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	ForAtMost(t, Timeout, what, check)
}

// ForAtMost is For with another timeout, for what needs more than a minute when nothing disturbs it.
func ForAtMost(t testing.TB, timeout time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), interval, timeout, true, func(ctx context.Context) (bool, error) {
		result := check(ctx)
		// If the deadline interrupted a check, the error of the check before says more.
		if result == nil || ctx.Err() == nil || last == nil {
			last = result
		}
		return result == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last error: %v", what, err, last)
	}
}
