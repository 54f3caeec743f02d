package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	stdlog "log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestSetUp checks that the records of all sources have the same keys.
func TestSetUp(t *testing.T) {
	var out buffer
	var level slog.LevelVar
	level.Set(slog.LevelDebug)
	SetUp(&out, &level)
	t.Cleanup(func() {
		klog.ClearLogger()
		stdlog.SetOutput(t.Output())
	})
	failure := errors.New("connection refused")
	for name, c := range map[string]struct {
		write func()
		want  map[string]any
	}{
		"a record of Rollcall has the default logger": {
			write: func() { log.Log.Info("Loaded the policy", "rules", 2) },
			want:  map[string]any{"level": "INFO", "msg": "Loaded the policy", "logger": "rollcall", "rules": 2.0},
		},
		"a named logger of Rollcall has its name": {
			write: func() { log.Log.WithName("certs").Info("Created the CA") },
			want:  map[string]any{"level": "INFO", "msg": "Created the CA", "logger": "certs"},
		},
		"an error of logr has the key error": {
			write: func() { log.Log.WithName("certs").Error(failure, "Reconciling failed") },
			want: map[string]any{
				"level": "ERROR", "msg": "Reconciling failed", "logger": "certs", "error": "connection refused",
			},
		},
		"a verbosity of logr is the level DEBUG": {
			write: func() { log.Log.V(1).Info("Update conflicted") },
			want:  map[string]any{"level": "DEBUG", "msg": "Update conflicted", "logger": "rollcall"},
		},
		"a group does not contain the logger": {
			write: func() { slog.Default().WithGroup("request").Info("Answered", "err", "kept") },
			want: map[string]any{
				"level": "INFO", "msg": "Answered", "logger": "rollcall", "request": map[string]any{"err": "kept"},
			},
		},
		"an unstructured warning of klog is one record": {
			write: func() { klog.Warning("watch of *v1.Job ended\nand was restarted") },
			want: map[string]any{
				"level": "INFO", "msg": "watch of *v1.Job ended\nand was restarted", "logger": "client-go",
			},
		},
		"a structured error of klog has the key error": {
			write: func() { klog.ErrorS(failure, "Failed to watch", "type", "*v1.Job") },
			want: map[string]any{
				"level": "ERROR", "msg": "Failed to watch", "logger": "client-go", "error": "connection refused", "type": "*v1.Job",
			},
		},
		"an unhandled error of a Kubernetes library has the key error": {
			write: func() { utilruntime.HandleErrorWithContext(t.Context(), failure, "Failed to record an Event") },
			want: map[string]any{
				"level": "ERROR", "msg": "Failed to record an Event", "logger": "client-go/UnhandledError",
				"error": "connection refused",
			},
		},
		"the standard package log writes warnings": {
			write: func() { stdlog.Print("http: TLS handshake error from 192.0.2.1:4711: EOF") },
			want: map[string]any{
				"level": "WARN", "msg": "http: TLS handshake error from 192.0.2.1:4711: EOF", "logger": "go",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out.reset()
			c.write()
			records := out.parse(t)
			if len(records) != 1 {
				t.Fatalf("%d records, want 1: %v", len(records), records)
			}
			got := records[0]
			if at, err := time.Parse(time.RFC3339Nano, got["time"].(string)); err != nil || at.Location() != time.UTC {
				t.Errorf("time is %v, want a time in UTC", got["time"])
			}
			delete(got, "time")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("record (-want, +got):\n%s", diff)
			}
		})
	}
	t.Run("a level below the configured level is not written", func(t *testing.T) {
		out.reset()
		level.Set(slog.LevelInfo)
		log.Log.V(1).Info("Update conflicted")
		klog.FromContext(t.Context()).V(1).Info("Update conflicted")
		if records := out.parse(t); len(records) != 0 {
			t.Errorf("the records are %v, want none", records)
		}
	})
	t.Run("a recovered panic is one record with its stack", func(t *testing.T) {
		checkPanic(t, &out, panicInReconciler)
	})
	t.Run("a panic in an HTTP handler is one record with its stack", func(t *testing.T) {
		checkPanic(t, &out, panicInServer)
	})
}

// panicInReconciler panics as in a reconciler of controller-runtime.
func panicInReconciler(t *testing.T) {
	defer func() {
		for _, handle := range utilruntime.PanicHandlers {
			handle(log.IntoContext(t.Context(), log.Log.WithValues("controller", "gang")), recover())
		}
	}()
	panic("nil map")
}

// panicInServer panics in a server of net/http.
func panicInServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("nil map") }))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody) // is not repeated
	if err != nil {
		t.Fatal(err)
	}
	if response, err := server.Client().Do(request); err == nil {
		response.Body.Close()
		t.Error("the request succeeded")
	}
	server.Close() // waits for the handler, which writes the record
}

func checkPanic(t *testing.T, out *buffer, cause func(*testing.T)) {
	t.Helper()
	out.reset()
	cause(t)
	records := out.parse(t)
	if len(records) != 1 {
		t.Fatalf("%d records, want 1: %v", len(records), records)
	}
	text, err := json.Marshal(records[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"nil map", "goroutine ", "logging_test.go"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the record does not contain %q: %s", part, text)
		}
	}
}

// buffer is a bytes.Buffer that goroutines can share.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data.Reset()
}

// parse returns the records in b. It fails the test if a line is not a JSON object.
func (b *buffer) parse(t *testing.T) []map[string]any {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var records []map[string]any
	for line := range strings.Lines(b.data.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("the line is not a JSON object: %v: %s", err, line)
		}
		records = append(records, record)
	}
	return records
}

// TestRoundLevel checks that every level has a name of the schema.
func TestRoundLevel(t *testing.T) {
	got := map[slog.Level]string{}
	for _, level := range []slog.Level{-10, -4, -1, 0, 2, 4, 6, 8, 12} {
		got[level] = roundLevel(level).String()
	}
	want := map[slog.Level]string{
		-10: "DEBUG", -4: "DEBUG", -1: "DEBUG", 0: "INFO", 2: "INFO", 4: "WARN", 6: "WARN", 8: "ERROR", 12: "ERROR",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("levels (-want, +got):\n%s", diff)
	}
}

// TestHandlerKeepsLogger checks that attributes of a logger name it only once.
func TestHandlerKeepsLogger(t *testing.T) {
	var out bytes.Buffer
	handler := newHandler(&out, slog.LevelInfo).WithAttrs([]slog.Attr{slog.String(loggerKey, "certs")})
	record := slog.NewRecord(time.Unix(0, 0), slog.LevelInfo, "Created the CA", 0)
	if err := handler.Handle(context.WithoutCancel(t.Context()), record); err != nil {
		t.Fatal(err)
	}
	want := `{"time":"1970-01-01T00:00:00Z","level":"INFO","msg":"Created the CA","logger":"certs"}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("record (-want, +got):\n%s", diff)
	}
}
