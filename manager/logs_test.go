package manager

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rollcall.training/injectors"
)

// runMainEnv is the environment variable that makes the test executable run the manager.
const runMainEnv = "ROLLCALL_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMainEnv) != "" {
		Main(injectors.Builtin())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestLogSchema runs the manager with an API server that fails, and requires that each line of its output
// is a record with the keys of docs/reference/logs.md.
func TestLogSchema(t *testing.T) {
	kubeconfig := startBrokenAPIServer(t)
	for name, c := range map[string]struct {
		args []string
		// wantLoggers must each have written a record before the process is terminated. Without them, the
		// process must exit itself.
		wantLoggers []string
		// wantError is a part of the last record of a process that exits itself.
		wantError string
	}{
		"a webhook that can read no Secret": {
			args:        []string{"webhook", "--shutdown-delay=0s"},
			wantLoggers: []string{"client-go", "go", "controller-runtime", "rollcall"},
		},
		"a controller that can watch no object and acquires no Lease": {
			args:        []string{"controller", "--leader-elect"},
			wantLoggers: []string{"leaderelection", "controller-runtime", "rollcall"},
		},
		"an invalid flag": {
			args:      []string{"controller", "--log-level=loud"},
			wantError: "debug, info, warn or error",
		},
		"an unknown part": {
			args:      []string{"scheduler"},
			wantError: "scheduler",
		},
		"a hook that can list no workload": {
			args:      []string{"detach", "--namespaces=team-a"},
			wantError: "listing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startManagerProcess(t, kubeconfig, c.args)
			if len(c.wantLoggers) == 0 {
				p.waitForExit(t)
				records := p.stderr.parseRecords(t)
				if len(records) == 0 {
					t.Fatal("the process wrote no record")
				}
				last := records[len(records)-1]
				if message, _ := last["error"].(string); last["level"] != "ERROR" || !strings.Contains(message, c.wantError) {
					t.Errorf("the last record is %v, want an error with %q", last, c.wantError)
				}
				return
			}
			p.waitForLoggers(t, c.wantLoggers)
			p.terminate(t)
			p.waitForExit(t)
			p.stderr.parseRecords(t)
		})
	}
}

// discoveryDocuments are responses of the broken API server without which the controller exits.
var discoveryDocuments = map[string]string{
	"/version": `{"major":"1","minor":"37","gitVersion":"v1.37.0"}`,
	"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[
		{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]},
		{"name":"batch","versions":[{"groupVersion":"batch/v1","version":"v1"}]}]}`,
	"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
		{"name":"pods","kind":"Pod","namespaced":true}, {"name":"services","kind":"Service","namespaced":true},
		{"name":"secrets","kind":"Secret","namespaced":true}, {"name":"namespaces","kind":"Namespace"}]}`,
	"/apis/apps/v1": `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[
		{"name":"statefulsets","kind":"StatefulSet","namespaced":true}]}`,
	"/apis/batch/v1": `{"kind":"APIResourceList","groupVersion":"batch/v1","resources":[
		{"name":"jobs","kind":"Job","namespaced":true}]}`,
}

// emptyLists are responses of the broken API server without which the cache of the controller is never filled.
var emptyLists = map[string]string{
	"/api/v1/pods":               formatEmptyList("v1", "PodList"),
	"/api/v1/services":           formatEmptyList("v1", "ServiceList"),
	"/apis/batch/v1/jobs":        formatEmptyList("batch/v1", "JobList"),
	"/apis/apps/v1/statefulsets": formatEmptyList("apps/v1", "StatefulSetList"),
}

func formatEmptyList(apiVersion, kind string) string {
	return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, kind, apiVersion)
}

// startBrokenAPIServer starts an API server that serves only discovery and empty lists, and returns the path
// of a kubeconfig.
func startBrokenAPIServer(t *testing.T) string {
	t.Helper()
	return startAPIServer(t, discoveryDocuments, emptyLists)
}

// startAPIServer starts an API server that serves only some documents by path, and returns the path of a
// kubeconfig.
func startAPIServer(t *testing.T, readable ...map[string]string) string {
	t.Helper()
	documents := map[string]string{}
	for _, some := range readable {
		maps.Copy(documents, some)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if document, ok := documents[r.URL.Path]; ok && r.URL.Query().Get("watch") == "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, document)
			return
		}
		http.Error(w, "etcdserver: no leader", http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"broken",
		"clusters":[{"name":"broken","cluster":{"server":%q}}],
		"contexts":[{"name":"broken","context":{"cluster":"broken"}}]}`, server.URL)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// managerProcess is a running manager.
type managerProcess struct {
	cmd         *exec.Cmd
	stderr      *logBuffer
	exited      chan struct{}
	webhookPort int
}

func startManagerProcess(t *testing.T, kubeconfig string, args []string) *managerProcess {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &managerProcess{stderr: &logBuffer{}, exited: make(chan struct{}), webhookPort: findFreePort(t)}
	var defaults []string
	if args[0] == "webhook" {
		defaults = append(defaults, "--port="+strconv.Itoa(p.webhookPort))
	}
	if args[0] != "detach" && args[0] != "scheduler" {
		defaults = append(defaults,
			"--namespace=rollcall-system", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	}
	args = slices.Concat(args[:1], defaults, args[1:])
	p.cmd = exec.CommandContext(t.Context(), executable, args...)
	p.cmd.Env = append(os.Environ(), runMainEnv+"=true", "KUBECONFIG="+kubeconfig)
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	return p
}

// findFreePort returns a port on which nothing listens. It is below the ports that Linux gives to outgoing connections,
// so that no connection of another process takes it before the process of the test listens.
func findFreePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 12000 + rand.IntN(20000)
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("found no free port")
	return 0
}

// waitForLoggers waits until each of the loggers has written a record. Names of loggers have parts, of
// which the first counts.
func (p *managerProcess) waitForLoggers(t *testing.T, want []string) {
	t.Helper()
	var missing []string
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(50 * time.Millisecond) {
		p.failHandshake(t)
		var found []string
		for _, record := range p.stderr.parseRecords(t) {
			first, _, _ := strings.Cut(fmt.Sprint(record["logger"]), "/")
			found = append(found, first)
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(name string) bool { return slices.Contains(found, name) })
		if len(missing) == 0 {
			return
		}
		select {
		case <-p.exited:
			t.Fatalf("the process exited; it wrote\n%s", p.stderr)
		default:
		}
	}
	t.Errorf("no record of the loggers %v; the process wrote\n%s", missing, p.stderr)
}

// failHandshake sends a request without TLS to the webhook, which net/http reports.
func (p *managerProcess) failHandshake(t *testing.T) {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.webhookPort))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return // does not listen, or not yet
	}
	defer func() { _ = conn.Close() }() // only the log of the server counts
	_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn)
}

func (p *managerProcess) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func (p *managerProcess) waitForExit(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(time.Minute):
		t.Fatalf("the process did not exit; it wrote\n%s", p.stderr)
	}
}

// logBuffer contains the output of a process.
type logBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// parseRecords returns the records of all complete lines. It fails the test if a line does not have the
// schema.
func (b *logBuffer) parseRecords(t *testing.T) []map[string]any {
	t.Helper()
	var records []map[string]any
	for line := range strings.Lines(b.String()) {
		if !strings.HasSuffix(line, "\n") {
			continue
		}
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("the line is not a JSON object: %v: %s", err, line)
		}
		for _, key := range []string{"time", "level", "msg", "logger"} {
			if text, _ := record[key].(string); text == "" {
				t.Fatalf("the record has no %s: %s", key, line)
			}
		}
		if !slices.Contains([]any{"DEBUG", "INFO", "WARN", "ERROR"}, record["level"]) {
			t.Fatalf("the level is unknown: %s", line)
		}
		if _, ok := record["err"]; ok {
			t.Fatalf("the error has another key: %s", line)
		}
		records = append(records, record)
	}
	return records
}
