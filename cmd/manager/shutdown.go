package main

import (
	"context"
	"errors"
	"net/http"
	"time"
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
