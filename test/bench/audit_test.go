package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"rollcall.training/test/installation"
)

// writerRollcall is the name of Rollcall in the report.
const writerRollcall = "rollcall"

// writeKind identifies a kind of write.
type writeKind struct {
	Writer string `json:"writer"`
	Verb   string `json:"verb"`
	// Resource includes the subresource, if any, for example "jobs/status".
	Resource string `json:"resource"`
	// Rejected is true if the API server rejected the write, in most cases because of a conflict.
	Rejected bool `json:"rejected,omitempty"`
}

// auditLog reads the API server's log of the writes to some namespaces.
type auditLog struct {
	policyPath, logPath string
	file                *os.File
}

// auditEvent holds the fields of an audit.k8s.io/v1 Event that the benchmark reads.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Namespace   string `json:"namespace"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// newAuditLog prepares a log of the writes to the namespaces. The caller must start the cluster
// with apiServerFlags.
func newAuditLog(t *testing.T, namespaces []string) *auditLog {
	t.Helper()
	return newAuditLogWithRule(t, map[string]any{
		"level":      "Metadata",
		"verbs":      []string{"create", "update", "patch", "delete", "deletecollection"},
		"namespaces": namespaces,
	})
}

// newAuditLogWithRule prepares a log of the requests that one rule of a policy selects. The caller must
// start the cluster with apiServerFlags.
func newAuditLogWithRule(t *testing.T, rule map[string]any) *auditLog {
	t.Helper()
	dir := t.TempDir()
	a := &auditLog{policyPath: filepath.Join(dir, "policy.yaml"), logPath: filepath.Join(dir, "audit.log")}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived", "ResponseStarted"},
		"rules":      []map[string]any{rule},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.policyPath, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if a.file, err = os.Create(a.logPath); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.file.Close() }) // the file is only read
	return a
}

func (a *auditLog) apiServerFlags() []string {
	return []string{
		"--audit-policy-file=" + a.policyPath,
		"--audit-log-path=" + a.logPath,
		// The maximum size in MB. A rotation during the test would lose events.
		"--audit-log-maxsize=10000",
	}
}

// waitUntilQuiet waits until nothing has been written for the duration d.
func (a *auditLog) waitUntilQuiet(t *testing.T, d time.Duration) {
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

// countWrites reads the new events and returns the number of writes of each kind to a namespace.
func (a *auditLog) countWrites(t *testing.T, namespace string) map[writeKind]int {
	t.Helper()
	counts := map[writeKind]int{}
	for _, e := range a.readEvents(t) {
		if e.ObjectRef.Namespace == namespace {
			counts[e.toWriteKind()]++
		}
	}
	return counts
}

// readEvents returns the new events.
func (a *auditLog) readEvents(t *testing.T) []auditEvent {
	t.Helper()
	text, err := io.ReadAll(a.file)
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	var events []auditEvent
	for line := range bytes.Lines(text) {
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("reading the audit log: %v: %s", err, line)
		}
		events = append(events, e)
	}
	return events
}

func (e auditEvent) toWriteKind() writeKind {
	w := writeKind{
		Writer:   e.writer(),
		Verb:     e.Verb,
		Resource: e.ObjectRef.Resource,
		Rejected: e.ResponseStatus.Code >= 400,
	}
	if e.ObjectRef.Subresource != "" {
		w.Resource += "/" + e.ObjectRef.Subresource
	}
	return w
}

// writer returns the program that wrote. The other operators have the user of the test.
func (e auditEvent) writer() string {
	program, _, _ := strings.Cut(e.UserAgent, "/")
	if slices.ContainsFunc(otherOperators, func(o operator) bool { return o.program == program }) {
		return program
	}
	return shortenUserName(e.User.Username)
}

// shortenUserName returns the last part of a user name: "job-controller" for
// "system:serviceaccount:kube-system:job-controller".
func shortenUserName(user string) string {
	if user == installation.ControllerUser || user == installation.WebhookUser {
		return writerRollcall
	}
	return user[strings.LastIndex(user, ":")+1:]
}
