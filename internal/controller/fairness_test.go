package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// restartPasses is the number of passes of a restart, each of which an event of the previous pass causes:
// the failure, the suspension, the termination of the last pod, the resumption, and readiness.
const restartPasses = 5

// newQueueFunc creates the queue of a controller.
type newQueueFunc = func(string, workqueue.TypedRateLimiter[Request]) workqueue.TypedRateLimitingInterface[Request]

// measureRestart returns the median time of restarts of a gang in its own namespace, while the gangs of
// another namespace are reconciled all the time. It runs controller-runtime's controller in the fake time
// of synctest. A pass takes from 10 to 30 ms, as the writes of a pass do.
func measureRestart(t *testing.T, newQueue newQueueFunc, workers, noisyGangs int) time.Duration {
	var median time.Duration
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex // of random
		var queue workqueue.TypedRateLimitingInterface[Request]
		reconciled := make(chan struct{})
		quiet := Request{Namespace: "quiet", Name: "train"}
		c, err := controller.NewTypedUnmanaged("gang", controller.TypedOptions[Request]{
			MaxConcurrentReconciles: workers,
			NewQueue:                newQueue,
			RateLimiter:             NewRateLimiter(),
			SkipNameValidation:      ptr.To(true),
			Reconciler: reconcile.TypedFunc[Request](func(_ context.Context, req Request) (ctrl.Result, error) {
				mu.Lock()
				duration := 10*time.Millisecond + time.Duration(random.Int64N(int64(20*time.Millisecond)))
				mu.Unlock()
				time.Sleep(duration)
				if req == quiet {
					reconciled <- struct{}{}
				} else {
					queue.Add(req) // its ranks fail again
				}
				return ctrl.Result{}, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Watch(source.TypedFunc[Request](
			func(_ context.Context, q workqueue.TypedRateLimitingInterface[Request]) error {
				queue = q
				for i := range noisyGangs {
					q.Add(Request{Namespace: "noisy", Name: fmt.Sprint(i)})
				}
				return nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error)
		go func() { stopped <- c.Start(ctx) }()
		time.Sleep(time.Second)
		bubbleClock := clock.RealClock{} // reads the time of the synctest bubble
		var durations []time.Duration
		for range 20 {
			begin := bubbleClock.Now()
			for range restartPasses {
				queue.Add(quiet)
				<-reconciled
			}
			durations = append(durations, bubbleClock.Since(begin))
		}
		slices.Sort(durations)
		median = durations[len(durations)/2]
		cancel()
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
	})
	return median
}

// TestRestartFairness checks that 1,000 gangs that restart all the time in one namespace delay the restart
// of a gang in another namespace by a factor of at most 2. The former queue shows the difference.
func TestRestartFairness(t *testing.T) {
	newFIFOQueue := func(
		name string, limiter workqueue.TypedRateLimiter[Request],
	) workqueue.TypedRateLimitingInterface[Request] {
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[Request]{Name: name})
	}
	alone := measureRestart(t, newRequestQueue, maxConcurrentReconciles, 0)
	fair := measureRestart(t, newRequestQueue, maxConcurrentReconciles, 1000)
	fifo := measureRestart(t, newFIFOQueue, 2, 1000)
	t.Logf("a restart takes %v alone, %v (%.1f times) with 1,000 restarting gangs, "+
		"and %v (%.0f times) with the former queue",
		alone, fair, fair.Seconds()/alone.Seconds(), fifo, fifo.Seconds()/alone.Seconds())
	if fair > 2*alone {
		t.Errorf("a restart takes %v, want at most twice %v", fair, alone)
	}
}
