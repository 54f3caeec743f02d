package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"rollcall.training/test/installation"
)

// rollcall is how the report calls the writer that this is about.
const rollcall = "rollcall"

// write is a kind of write.
type write struct {
	Writer string `json:"writer"`
	Verb   string `json:"verb"`
	// Resource has the subresource, if there is one: "jobs/status".
	Resource string `json:"resource"`
	// Refused is true when the API server did not do it, mostly since the writer had seen an older object.
	Refused bool `json:"refused,omitempty"`
}

// auditLog is the API server's log of the writes to some namespaces.
type auditLog struct {
	policy, path string
	file         *os.File
}

// auditEvent is what we read of an event of audit.k8s.io/v1.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Namespace   string `json:"namespace"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// newAuditLog prepares a log of the writes to the namespaces. The cluster has to be started with its flags.
func newAuditLog(t *testing.T, namespaces []string) *auditLog {
	t.Helper()
	dir := t.TempDir()
	a := &auditLog{policy: filepath.Join(dir, "policy.yaml"), path: filepath.Join(dir, "audit.log")}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived", "ResponseStarted"},
		"rules": []map[string]any{{
			"level":      "Metadata",
			"verbs":      []string{"create", "update", "patch", "delete", "deletecollection"},
			"namespaces": namespaces,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.policy, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if a.file, err = os.Create(a.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.file.Close() }) // only read
	return a
}

func (a *auditLog) flags() []string {
	return []string{
		"--audit-policy-file=" + a.policy,
		"--audit-log-path=" + a.path,
		// In MB. A log that was rotated away in the middle would be read half.
		"--audit-log-maxsize=10000",
	}
}

// quiet waits until nothing has been written for so long.
func (a *auditLog) quiet(t *testing.T, d time.Duration) {
	t.Helper()
	last, since := int64(-1), time.Now()
	for time.Since(since) < d {
		info, err := a.file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != last {
			last, since = info.Size(), time.Now()
		}
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(d / 20)
	}
}

// writes reads on and counts the writes to a namespace.
func (a *auditLog) writes(t *testing.T, namespace string) map[write]int {
	t.Helper()
	text, err := io.ReadAll(a.file)
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	counts := map[write]int{}
	for line := range bytes.Lines(text) {
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("reading the audit log: %v: %s", err, line)
		}
		if e.ObjectRef.Namespace == namespace {
			counts[e.write()]++
		}
	}
	return counts
}

func (e auditEvent) write() write {
	w := write{Writer: writer(e.User.Username), Verb: e.Verb, Resource: e.ObjectRef.Resource, Refused: e.ResponseStatus.Code >= 400}
	if e.ObjectRef.Subresource != "" {
		w.Resource += "/" + e.ObjectRef.Subresource
	}
	return w
}

// writer shortens a user's name: "system:serviceaccount:kube-system:job-controller" is "job-controller".
func writer(user string) string {
	if user == installation.User {
		return rollcall
	}
	return user[strings.LastIndex(user, ":")+1:]
}
