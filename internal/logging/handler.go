package logging

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// The keys that more than one source writes.
const (
	loggerKey = "logger"
	errorKey  = "error"
	// logrErrorKey is the key that logr gives to the error of a record.
	logrErrorKey = "err"
)

// The loggers of records whose source has no name of its own.
const (
	defaultLogger = "rollcall"
	klogLogger    = "client-go"
	goLogger      = "go"
)

// schemaHandler adds the key logger to the records that do not have it, because slog cannot require a key.
type schemaHandler struct {
	slog.Handler
	// hasLogger is whether the attributes of the handler contain the key.
	hasLogger bool
}

// newHandler returns a handler that writes records of at least the given level to out. It writes the
// keys time, level, msg and logger in every record. The caller must not use a writer that splits writes.
func newHandler(out io.Writer, level slog.Leveler) slog.Handler {
	return schemaHandler{Handler: slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: replaceAttr})}
}

// replaceAttr implements the schema for a key on the top level: times are in UTC, there are four levels,
// and an error has the same key in records of all sources.
func replaceAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch value := a.Value.Any().(type) {
	case time.Time:
		if a.Key == slog.TimeKey {
			a.Value = slog.TimeValue(value.UTC())
		}
	case slog.Level:
		if a.Key == slog.LevelKey {
			a.Value = slog.StringValue(roundLevel(value).String())
		}
	}
	switch a.Key {
	case slog.MessageKey:
		a.Value = slog.StringValue(strings.TrimSpace(a.Value.String())) // klog and net/http end messages with a newline
	case logrErrorKey:
		a.Key = errorKey
	}
	return a
}

// roundLevel returns the level with a name. The verbosity n of logr is the level -n, which has no name
// unless n is 0 or 4.
func roundLevel(level slog.Level) slog.Level {
	switch {
	case level < slog.LevelInfo:
		return slog.LevelDebug
	case level < slog.LevelWarn:
		return slog.LevelInfo
	case level < slog.LevelError:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}

// Handle implements [slog.Handler].
func (h schemaHandler) Handle(ctx context.Context, r slog.Record) error {
	hasLogger := h.hasLogger
	r.Attrs(func(a slog.Attr) bool {
		hasLogger = hasLogger || a.Key == loggerKey
		return !hasLogger
	})
	if !hasLogger {
		r = r.Clone()
		r.AddAttrs(slog.String(loggerKey, defaultLogger))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h schemaHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	isLogger := func(a slog.Attr) bool { return a.Key == loggerKey }
	return schemaHandler{h.Handler.WithAttrs(attrs), h.hasLogger || slices.ContainsFunc(attrs, isLogger)}
}

// WithGroup implements [slog.Handler]. The key logger of a record with a group would be in the group, so
// the handler first gets the default.
func (h schemaHandler) WithGroup(name string) slog.Handler {
	inner := h.Handler
	if !h.hasLogger {
		inner = inner.WithAttrs([]slog.Attr{slog.String(loggerKey, defaultLogger)})
	}
	return schemaHandler{inner.WithGroup(name), true}
}
