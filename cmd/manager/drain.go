package main

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// errDraining makes the readiness probe fail.
var errDraining = errors.New("shutting down: serving what still arrives")

// drain delays the end of the process after the signal to stop. controller-runtime
// closes its listener at once, but endpoints follow a pod's end with a lag, and in
// that gap admission calls would be refused (kubernetes-sigs/controller-runtime
// issue 3113). So readiness fails first, and serving ends when the delay is over.
//
// The returned context ends with the delay; the check is a healthz.Checker.
func drain(signal context.Context, delay time.Duration) (context.Context, func(*http.Request) error) {
	serving, stop := context.WithCancel(context.WithoutCancel(signal))
	context.AfterFunc(signal, func() { time.AfterFunc(delay, stop) })
	return serving, func(*http.Request) error {
		if signal.Err() != nil {
			return errDraining
		}
		return nil
	}
}
