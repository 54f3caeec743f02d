package volcano_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/migrate"
)

// TestRestarts says for each pair of reactions what becomes of the gang.
func TestRestarts(t *testing.T) {
	const evict = "FailJob DisruptionTarget"
	for _, c := range []struct {
		policies, pod string
		restart       string
		final         string
		rules         []string
		template      corev1.RestartPolicy
	}{
		{"[]", "Never", "never", "", nil, corev1.RestartPolicyNever},
		{"[]", "OnFailure", "", "", nil, corev1.RestartPolicyOnFailure},
		{"[]", "Always", "", "", nil, corev1.RestartPolicyOnFailure},
		{"[{event: PodFailed, action: RestartJob}]", "Never", "", "", nil, corev1.RestartPolicyNever},
		{"[{event: PodEvicted, action: RestartJob}]", "Never", "", "", nil, corev1.RestartPolicyNever},
		{"[{event: '*', action: RestartTask}]", "OnFailure", "", "", nil, corev1.RestartPolicyOnFailure},
		{"[{event: '*', action: AbortJob}]", "OnFailure", "never", "", nil, corev1.RestartPolicyNever},
		{"[{events: [PodFailed, PodEvicted], action: TerminateJob}]", "Never", "never", "", nil, corev1.RestartPolicyNever},
		{"[{event: PodFailed, action: AbortJob}, {event: PodEvicted, action: RestartJob}]", "Never", "", "1-255", nil, corev1.RestartPolicyNever},
		{"[{event: PodFailed, action: RestartJob}, {event: PodEvicted, action: AbortJob}]", "OnFailure", "", "", []string{evict}, corev1.RestartPolicyNever},
		{"[{exitCode: 1, action: AbortJob}, {exitCode: 1, action: RestartJob}, {event: PodFailed, action: RestartJob}]", "Never", "", "1", nil, corev1.RestartPolicyNever},
		{"[{event: PodFailed, action: RestartJob}, {exitCode: 1, action: AbortJob}]", "Never", "", "", nil, corev1.RestartPolicyNever},
		{"[{exitCode: 3, action: RestartJob}]", "Never", "", "1-2,4-255", nil, corev1.RestartPolicyNever},
		{"[{event: PodPending, action: AbortJob, timeout: 1m}]", "Never", "never", "", nil, corev1.RestartPolicyNever},
		{"[{exitCode: 3, action: RestartJob}, {event: '*', action: AbortJob}]", "OnFailure", "", "1-2,4-255", []string{evict}, corev1.RestartPolicyNever},
		{"[{exitCode: 64, action: AbortJob}, {exitCode: 65, action: AbortJob}, {exitCode: 70, action: AbortJob}, {event: '*', action: RestartJob}]", "Never", "", "64-65,70", nil, corev1.RestartPolicyNever},
	} {
		t.Run(c.policies+c.pod, func(t *testing.T) {
			spec := "{plugins: {pytorch: []}, policies: " + c.policies + ", tasks: [{name: worker, replicas: 2, " +
				strings.Replace(pods("command: [x]"), "Never", c.pod, 1) + "}]}"
			out, report := run(t, migrate.Migrator{}, job(spec))
			w, ok := out["train"]
			if !ok {
				t.Fatalf("no workload: %q", report.Mistakes)
			}
			if got := w.Meta().Annotations[gang.AnnotationRestartPolicy]; got != c.restart {
				t.Errorf("restart policy %q, want %q", got, c.restart)
			}
			if got := w.Meta().Annotations[gang.AnnotationFinalCodes]; got != c.final {
				t.Errorf("final exit codes %q, want %q", got, c.final)
			}
			if got := w.Template().Spec.RestartPolicy; got != c.template {
				t.Errorf("pods restart %s, want %s", got, c.template)
			}
			if diff := cmp.Diff(c.rules, rules(w.Job.Spec.PodFailurePolicy)); diff != "" {
				t.Errorf("podFailurePolicy (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFinalCodesOfParts: a gang has one list of final exit codes. Where the parts differ in
// them, each Job has a policy of its own.
func TestFinalCodesOfParts(t *testing.T) {
	for _, c := range []struct {
		reason, policies, master, worker string
		final                            string
		rules                            map[string][]string
	}{
		{"all alike, and servers may be StatefulSets", "[{exitCode: 3, action: AbortJob}, {event: '*', action: RestartJob}]", "[]", "[]", "3",
			map[string][]string{"Job train-launcher": nil, "StatefulSet train-worker": nil}},
		{"they differ", "[{event: '*', action: RestartJob}]", "[{exitCode: 3, action: AbortJob}]", "[]", "",
			map[string][]string{"Job train-launcher": {"FailJob In [3]"}, "StatefulSet train-worker": nil}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			task := func(name, policies string) string {
				return "{name: " + name + ", replicas: 1, policies: " + policies + ", " + pods("command: [sshd]") + "}"
			}
			out, report := run(t, migrate.Migrator{Framework: "mpi"}, job("{policies: "+c.policies+", tasks: ["+task("master", c.master)+","+task("worker", c.worker)+"]}"))
			got := map[string][]string{}
			for name, w := range out {
				got[string(w.Kind())+" "+name] = nil
				if w.Job != nil {
					got[string(w.Kind())+" "+name] = rules(w.Job.Spec.PodFailurePolicy)
				}
				if have := w.Meta().Annotations[gang.AnnotationFinalCodes]; have != c.final {
					t.Errorf("%s: final exit codes %q, want %q", name, have, c.final)
				}
			}
			if diff := cmp.Diff(c.rules, got); diff != "" {
				t.Errorf("podFailurePolicy (-want +got), mistakes %q:\n%s", report.Mistakes, diff)
			}
		})
	}
}
