package controller

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestSessionForgotten checks that the session of a deleted gang is dropped.
func TestSessionForgotten(t *testing.T) {
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t))
	w.reconcileOnce(t, trainRequest)
	for _, o := range []client.Object{newLauncherJob(t), newWorkerStatefulSet(t)} {
		if err := w.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.reconcileOnce(t, trainRequest)
	if len(w.sessions.byRequest) > 0 {
		t.Errorf("remaining sessions: %v", w.sessions.byRequest)
	}
}

func TestRetryInterval(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, time.Minute: 15 * time.Second, 24 * time.Hour: 5 * time.Minute, -time.Hour: 2 * time.Second,
	} {
		if got := retryInterval(age); got != want {
			t.Errorf("age %s: %s, want %s", age, got, want)
		}
	}
}
