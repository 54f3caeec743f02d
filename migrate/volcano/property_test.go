package volcano_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/migrate"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// TestValidJobs makes jobs that Volcano takes: all of them migrate, the webhook neither
// denies nor warns of the result, and no field is unknown.
func TestValidJobs(t *testing.T) {
	rng := rand.New(rand.NewSource(5))
	pick := func(choices ...string) string { return choices[rng.Intn(len(choices))] }
	for i := range 400 {
		text := valid(pick)
		m := migrate.Migrator{Namespace: "default", Config: gang.Config{ClusterDomain: gang.DefaultClusterDomain},
			Scheduler: origin.Scheduler(pick("", "volcano", "coscheduling"))}
		out, report := run(t, m, text)
		if len(out) == 0 || report.Failed() || len(report.Warnings) > 0 {
			t.Fatalf("job %d: %d workloads, mistakes %q, warnings %q:\n%s", i, len(out), report.Mistakes, report.Warnings, text)
		}
		for _, e := range report.Entries {
			if e.Outcome == ledger.Lost && strings.Contains(e.Reason, "does not know") {
				t.Fatalf("job %d: %s: %s:\n%s", i, e.Path, e.Reason, text)
			}
			if e.Outcome != ledger.Carried && e.Reason == "" {
				t.Fatalf("job %d: %s is %s, and nobody says why", i, e.Path, e.Outcome)
			}
		}
	}
}

// valid is a Volcano Job of parts that are chosen each by itself.
func valid(pick func(...string) string) string {
	policies := func() string {
		var out []string
		for _, event := range []string{"PodFailed", "PodEvicted", "TaskFailed", "Unknown", "PodPending"} {
			if action := pick("", "", "RestartJob", "RestartTask", "AbortJob", "TerminateJob", "CompleteJob"); action != "" {
				out = append(out, fmt.Sprintf("{event: %s, action: %s%s}", event, action, pick("", ", timeout: 5m")))
			}
		}
		out = append(out, pick("{exitCode: 3, action: RestartJob}", "{exitCode: 4, action: AbortJob}"), pick("{event: TaskCompleted, action: CompleteJob}", "{event: JobUpdated, action: RestartJob}"))
		return "[" + strings.Join(out[:len(out)-len(pick("", "x", "xx"))], ", ") + "]"
	}
	task := func(name, replicas string) string {
		return fmt.Sprintf("{name: %s, replicas: %s, %s%s%spolicies: %s, template: {spec: {restartPolicy: %s, %scontainers: [{name: main, image: 'x:1', command: [%s]%s}]}}}",
			name, replicas, pick("", "minAvailable: 1, "), pick("", "maxRetry: 2, "), pick("", "topologyPolicy: restricted, "), policies(),
			pick("Never", "OnFailure", "Always"), pick("", "hostNetwork: true, ", "subdomain: other, "), pick("./x", "torchrun", "sh, -c, 'cat /etc/volcano/worker.host'"),
			pick("", ", env: [{name: RANK, value: '1'}, {name: TF_CONFIG, value: '{}'}, {name: MPI_HOST, value: a}, {name: VC_TASK_INDEX, value: '9'}]"))
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
	return job(fmt.Sprintf("{%s%s%s%s%s%splugins: {%s: []%s%s%s}, policies: %s, tasks: [%s]}",
		pick("", "schedulerName: volcano, ", "schedulerName: mine, "), pick("", "minAvailable: 2, ", "queue: q, "), pick("", "minSuccess: 1, ", "minSuccess: 2, "),
		pick("", "maxRetry: 5, "), pick("", "ttlSecondsAfterFinished: 9, "), pick("", "volumes: [{mountPath: /d, volumeClaimName: d}], "),
		plugin, pick("", ", env: []"), pick("", ", svc: [--inject-hosts-env=false]", ", svc: []"), pick("", ", ssh: []"), policies(), strings.Join(tasks, ", ")))
}
