package volcano_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// TestValidJobs migrates random valid jobs. The webhook accepts the result without a warning, and no
// field is unknown.
func TestValidJobs(t *testing.T) {
	rng := rand.New(rand.NewSource(5))
	pick := func(choices ...string) string { return choices[rng.Intn(len(choices))] }
	for i := range 400 {
		text := generateJob(pick)
		m := migrate.Migrator{
			Namespace: "default", Config: gang.Config{ClusterDomain: gang.DefaultClusterDomain},
			Scheduler: source.Scheduler(pick("", "volcano", "coscheduling")),
		}
		out, report := migrateJob(t, m, text)
		if len(out) == 0 || report.Failed() || len(report.Warnings) > 0 {
			t.Fatalf("job %d: %d workloads, mistakes %q, warnings %q:\n%s",
				i, len(out), report.Errors, report.Warnings, text)
		}
		for _, e := range report.Entries {
			if e.Outcome == source.Dropped && strings.Contains(e.Reason, "does not know") {
				t.Fatalf("job %d: %s: %s:\n%s", i, e.Path, e.Reason, text)
			}
			if e.Outcome != source.Preserved && e.Reason == "" {
				t.Fatalf("job %d: %s is %s without a reason", i, e.Path, e.Outcome)
			}
		}
	}
}

// generateJob returns a Volcano Job whose fields are chosen independently.
func generateJob(pick func(...string) string) string {
	policies := func() string {
		var out []string
		for _, event := range []string{"PodFailed", "PodEvicted", "TaskFailed", "Unknown", "PodPending"} {
			action := pick("", "", "RestartJob", "RestartTask", "AbortJob", "TerminateJob", "CompleteJob")
			if action != "" {
				out = append(out, fmt.Sprintf("{event: %s, action: %s%s}", event, action, pick("", ", timeout: 5m")))
			}
		}
		out = append(out, pick("{exitCode: 3, action: RestartJob}", "{exitCode: 4, action: AbortJob}"),
			pick("{event: TaskCompleted, action: CompleteJob}", "{event: JobUpdated, action: RestartJob}"))
		return "[" + strings.Join(out[:len(out)-len(pick("", "x", "xx"))], ", ") + "]"
	}
	task := func(name, replicas string) string {
		env := "{name: RANK, value: '1'}, {name: TF_CONFIG, value: '{}'}, {name: MPI_HOST, value: a}, " +
			"{name: VC_TASK_INDEX, value: '9'}"
		return fmt.Sprintf("{name: %s, replicas: %s, %s%s%spolicies: %s, template: {spec: {restartPolicy: %s, "+
			"%scontainers: [{name: main, image: 'x:1', command: [%s]%s}]}}}",
			name, replicas, pick("", "minAvailable: 1, "), pick("", "maxRetry: 2, "),
			pick("", "topologyPolicy: restricted, "), policies(),
			pick("Never", "OnFailure", "Always"), pick("", "hostNetwork: true, ", "subdomain: other, "),
			pick("./x", "torchrun", "sh, -c, 'cat /etc/volcano/worker.host'"), pick("", ", env: ["+env+"]"))
	}
	plugin := pick("pytorch", "tensorflow", "mpi")
	tasks := []string{task("worker", pick("1", "2", "5"))}
	if plugin != "tensorflow" {
		tasks = append(tasks, task("master", "1"))
	} else {
		for _, name := range []string{"chief", "ps", "evaluator"} {
			if pick("", "x") != "" {
				tasks = append(tasks, task(name, "1"))
			}
		}
	}
	if pick("", "x") != "" && plugin != "mpi" {
		tasks = append(tasks, task("board", "1"))
	}
	return volcanoJobYAML(fmt.Sprintf("{%s%s%s%s%s%splugins: {%s: []%s%s%s}, policies: %s, tasks: [%s]}",
		pick("", "schedulerName: volcano, ", "schedulerName: mine, "), pick("", "minAvailable: 2, ", "queue: q, "),
		pick("", "minSuccess: 1, ", "minSuccess: 2, "), pick("", "maxRetry: 5, "),
		pick("", "ttlSecondsAfterFinished: 9, "), pick("", "volumes: [{mountPath: /d, volumeClaimName: d}], "),
		plugin, pick("", ", env: []"), pick("", ", svc: [--inject-hosts-env=false]", ", svc: []"), pick("", ", ssh: []"),
		policies(), strings.Join(tasks, ", ")))
}
