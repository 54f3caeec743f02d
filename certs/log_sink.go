package certs

import (
	"context"
	"errors"

	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// demoteLogger returns a logger for cert-manager. It raises the verbosity of progress messages by one
// level, because cert-manager logs several for each certificate and each wait. It logs errors of normal
// operation as progress messages.
func demoteLogger(l logr.Logger) logr.Logger {
	if l.GetSink() == nil { // logr.Discard
		return l
	}
	return l.WithSink(demotedLogSink{l.GetSink()})
}

// demotedLogSink is the sink of [demoteLogger].
type demotedLogSink struct{ logr.LogSink }

func (s demotedLogSink) Enabled(level int) bool { return s.LogSink.Enabled(level + 1) }

func (s demotedLogSink) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(level+1, message, keysAndValues...)
}

func (s demotedLogSink) Error(err error, message string, keysAndValues ...any) {
	if !isExpectedError(err) {
		s.LogSink.Error(err, message, keysAndValues...)
		return
	}
	if s.Enabled(0) {
		s.Info(0, message, append([]any{"reason", err.Error()}, keysAndValues...)...)
	}
}

func (s demotedLogSink) WithValues(keysAndValues ...any) logr.LogSink {
	return demotedLogSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s demotedLogSink) WithName(name string) logr.LogSink {
	return demotedLogSink{s.LogSink.WithName(name)}
}

// isExpectedError reports whether err is part of normal operation: a conflict with another replica, the
// shutdown of the process, or a certificate that waits for the bundle.
func isExpectedError(err error) bool {
	return apierrors.IsConflict(err) ||
		errors.Is(err, context.Canceled) ||
		errors.Is(err, authority.ErrCertificateNotAvailable)
}
