package certs

import (
	"context"
	"errors"

	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// quiet returns a logger for cert-manager: its progress reports (several for each certificate, and more for
// each time that it waits) are one level more verbose, and its errors are such only if they are not part of normal operation.
func quiet(l logr.Logger) logr.Logger {
	if l.GetSink() == nil { // That of logr.Discard.
		return l
	}
	return l.WithSink(quietSink{l.GetSink()})
}

type quietSink struct{ logr.LogSink }

func (s quietSink) Enabled(level int) bool { return s.LogSink.Enabled(level + 1) }

func (s quietSink) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(level+1, message, keysAndValues...)
}

func (s quietSink) Error(err error, message string, keysAndValues ...any) {
	if !expected(err) {
		s.LogSink.Error(err, message, keysAndValues...)
		return
	}
	if s.Enabled(0) {
		s.Info(0, message, append([]any{"reason", err.Error()}, keysAndValues...)...)
	}
}

func (s quietSink) WithValues(keysAndValues ...any) logr.LogSink {
	return quietSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s quietSink) WithName(name string) logr.LogSink {
	return quietSink{s.LogSink.WithName(name)}
}

// expected says whether err is a lost race with another replica, the end of the process, or the wait for the bundle.
func expected(err error) bool {
	return apierrors.IsConflict(err) ||
		errors.Is(err, context.Canceled) ||
		errors.Is(err, authority.ErrCertificateNotAvailable)
}
