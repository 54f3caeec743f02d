package logging

import (
	"io"
	stdlog "log"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// SetUp makes all sources of logs in this process write to out: controller-runtime, klog, slog and the
// standard package log. Changes of level take effect immediately. SetUp replaces global loggers, so only
// the program may call it, before it starts goroutines.
func SetUp(out io.Writer, level slog.Leveler) {
	handler := newHandler(out, level)
	log.SetLogger(logr.FromSlogHandler(handler))
	// With a contextual logger, libraries use the logger of their context, which has more keys.
	klog.SetLoggerWithOptions(logr.FromSlogHandler(handler).WithName(klogLogger), klog.ContextualLogger(true))
	slog.SetDefault(slog.New(handler))
	// net/http writes failed handshakes and recovered panics to the standard logger.
	named := handler.WithAttrs([]slog.Attr{slog.String(loggerKey, goLogger)})
	stdlog.SetFlags(0)
	stdlog.SetOutput(slog.NewLogLogger(named, slog.LevelWarn).Writer())
}
