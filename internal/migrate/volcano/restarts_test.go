package volcano_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// TestRestarts checks the effect of lifecycle policies on a gang.
func TestRestarts(t *testing.T) {
	tests := []struct {
		policies, podPolicy string
		restartPolicy       string
		nonRetriable        string
		template            corev1.RestartPolicy
	}{
		{policies: "[]", podPolicy: "Never", restartPolicy: "never", template: "Never"},
		{policies: "[]", podPolicy: "OnFailure", template: "OnFailure"},
		{policies: "[]", podPolicy: "Always", template: "OnFailure"},
		{policies: "[{event: PodFailed, action: RestartJob}]", podPolicy: "Never", template: "Never"},
		{policies: "[{event: PodEvicted, action: RestartJob}]", podPolicy: "Never", template: "Never"},
		{policies: "[{event: '*', action: RestartTask}]", podPolicy: "OnFailure", template: "OnFailure"},
		{
			policies: "[{event: '*', action: AbortJob}]", podPolicy: "OnFailure",
			restartPolicy: "never", template: "Never",
		},
		{
			policies:  "[{events: [PodFailed, PodEvicted], action: TerminateJob}]",
			podPolicy: "Never", restartPolicy: "never", template: "Never",
		},
		{
			policies:  "[{event: PodFailed, action: AbortJob}, {event: PodEvicted, action: RestartJob}]",
			podPolicy: "Never", nonRetriable: "1-255", template: "Never",
		},
		{
			policies:  "[{event: PodFailed, action: RestartJob}, {event: PodEvicted, action: AbortJob}]",
			podPolicy: "OnFailure", template: "OnFailure",
		},
		{
			policies:  "[{event: PodPending, action: AbortJob, timeout: 1m}]",
			podPolicy: "Never", restartPolicy: "never", template: "Never",
		},
		{
			policies:  "[{exitCode: 64, action: AbortJob}, {event: '*', action: RestartJob}]",
			podPolicy: "Never", template: "Never",
		},
	}
	for _, tt := range tests {
		t.Run(tt.policies+tt.podPolicy, func(t *testing.T) {
			spec := "{plugins: {pytorch: []}, policies: " + tt.policies + ", tasks: [{name: worker, replicas: 2, " +
				strings.Replace(podTemplateYAML("command: [x]"), "Never", tt.podPolicy, 1) + "}]}"
			out, report := migrateJob(t, migrate.Migrator{}, volcanoJobYAML(spec))
			w, ok := out["train"]
			if !ok {
				t.Fatalf("no workload: %q", report.Errors)
			}
			if got := w.Meta().Annotations[gang.AnnotationRestartPolicy]; got != tt.restartPolicy {
				t.Errorf("restart policy = %q, want %q", got, tt.restartPolicy)
			}
			if got := w.Meta().Annotations[gang.AnnotationNonRetriableExitCodes]; got != tt.nonRetriable {
				t.Errorf("non-retriable exit codes = %q, want %q", got, tt.nonRetriable)
			}
			if got := w.Template().Spec.RestartPolicy; got != tt.template {
				t.Errorf("restartPolicy of the pods = %s, want %s", got, tt.template)
			}
			if w.Job.Spec.PodFailurePolicy != nil {
				t.Error("the Job has a podFailurePolicy")
			}
		})
	}
}

// TestEvictionFails checks that an eviction restarts a gang whose failures do, and that the report contains it.
func TestEvictionFails(t *testing.T) {
	_, report := migrateJob(t, migrate.Migrator{}, volcanoJobYAML("{plugins: {pytorch: []}, policies: ["+
		"{event: PodFailed, action: RestartJob}, {event: PodEvicted, action: AbortJob}], "+
		"tasks: [{name: worker, replicas: 2, "+
		podTemplateYAML("command: [x]")+"}]}"))
	if got := worstOutcome(report, "spec.policies[1]"); got != source.Dropped {
		t.Errorf("outcome of the policy = %s, want %s", got, source.Dropped)
	}
}

// TestFatalFailuresOfRoles checks that a failure fails a gang that restarts otherwise if it does so in all tasks.
func TestFatalFailuresOfRoles(t *testing.T) {
	tests := []struct {
		name, policies string
		master, worker string // policies of the tasks
		nonRetriable   string
		rules          map[string][]string
	}{
		{
			name:     "equal rules allow StatefulSets",
			policies: "[{event: PodFailed, action: AbortJob}, {event: PodEvicted, action: RestartJob}]",
			master:   "[]", worker: "[]",
			nonRetriable: "1-255",
			rules:        map[string][]string{"Job train-launcher": nil, "StatefulSet train-worker": nil},
		},
		{
			name:     "different rules",
			policies: "[{event: '*', action: RestartJob}]",
			master:   "[{event: PodFailed, action: AbortJob}]", worker: "[]",
			rules: map[string][]string{"Job train-launcher": nil, "StatefulSet train-worker": nil},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task := func(name, policies string) string {
				return "{name: " + name + ", replicas: 1, policies: " + policies + ", " + podTemplateYAML("command: [sshd]") + "}"
			}
			out, report := migrateJob(t, migrate.Migrator{Framework: "mpi"}, volcanoJobYAML(
				"{policies: "+tt.policies+", tasks: ["+task("master", tt.master)+","+task("worker", tt.worker)+"]}"))
			got := map[string][]string{}
			for name, w := range out {
				got[string(w.Kind())+" "+name] = nil
				if w.Job != nil {
					got[string(w.Kind())+" "+name] = formatRules(w.Job.Spec.PodFailurePolicy)
				}
				if codes := w.Meta().Annotations[gang.AnnotationNonRetriableExitCodes]; codes != tt.nonRetriable {
					t.Errorf("non-retriable exit codes of %s = %q, want %q", name, codes, tt.nonRetriable)
				}
			}
			if diff := cmp.Diff(tt.rules, got); diff != "" {
				t.Errorf("podFailurePolicy (-want +got), mistakes %q:\n%s", report.Errors, diff)
			}
		})
	}
}
