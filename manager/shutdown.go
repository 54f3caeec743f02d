package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// errDraining is the result of the readiness probe during a shutdown.
var errDraining = errors.New("shutting down: serving only the remaining requests")

// delayShutdown delays the shutdown after the context signal is done. controller-runtime closes its
// listener immediately, but the removal of a terminating pod from the endpoints takes time. API servers
// would get connection errors in the meantime (kubernetes-sigs/controller-runtime#3113). Readiness
// therefore fails first, and the process serves requests until the delay has elapsed.
//
// The returned context is done after the delay. The returned function is a healthz.Checker that fails
// once signal is done.
func delayShutdown(signal context.Context, delay time.Duration) (context.Context, func(*http.Request) error) {
	serving, stop := context.WithCancel(context.WithoutCancel(signal))
	context.AfterFunc(signal, func() { time.AfterFunc(delay, stop) })
	return serving, func(*http.Request) error {
		if signal.Err() != nil {
			return errDraining
		}
		return nil
	}
}

// startManager runs mgr until ctx is done.
//
// A manager of controller-runtime that waits for its caches does not stop when ctx is done
// (kubernetes-sigs/controller-runtime#3440). It waits forever if the process may not list an object. At that
// time it runs only its servers, so startManager returns and the process exits.
func startManager(ctx context.Context, mgr manager.Manager) error {
	synced := make(syncSignal)
	if err := mgr.Add(synced); err != nil {
		return fmt.Errorf("adding the signal of the caches: %w", err)
	}
	stopped := make(chan error, 1) // startManager can return first
	go func() { stopped <- mgr.Start(ctx) }()
	var err error
	select {
	case err = <-stopped:
	case <-ctx.Done():
		select {
		case <-synced:
			err = <-stopped
		default:
			log.Log.Info("Exited before the caches were filled")
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// syncSignal is a runnable that closes the channel. A manager starts it after its caches are filled.
type syncSignal chan struct{}

// Start closes the channel.
func (s syncSignal) Start(context.Context) error {
	close(s)
	return nil
}

// NeedLeaderElection returns false, because the caches of all replicas are filled.
func (s syncSignal) NeedLeaderElection() bool { return false }
