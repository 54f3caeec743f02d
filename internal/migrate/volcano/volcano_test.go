package volcano_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// volcanoJobYAML returns a Volcano Job with the given spec in YAML's flow style.
func volcanoJobYAML(spec string) string {
	return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\nspec: " + spec + "\n"
}

// podTemplateYAML returns the template of a task with one container, which has the given fields.
func podTemplateYAML(container string) string {
	return "template: {spec: {restartPolicy: Never, containers: [" +
		"{name: main, image: 'example.com/x:1', " + container + "}]}}"
}

// migrateJob migrates a manifest. It returns the workloads by name, and the report.
func migrateJob(t *testing.T, m migrate.Migrator, text string) (map[string]gang.Workload, migrate.Report) {
	t.Helper()
	docs, err := manifest.Read("job.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	result := m.Migrate(docs)
	if len(result.Reports) != 1 {
		t.Fatalf("%d reports", len(result.Reports))
	}
	out := map[string]gang.Workload{}
	for _, d := range result.Documents {
		for _, o := range d.Objects() {
			if w, ok := gang.NewWorkload(gang.Kind(o.Kind)); ok {
				if err := o.Decode(w.Object()); err != nil {
					t.Fatal(err)
				}
				out[w.Meta().Name] = w
			}
		}
	}
	return out, result.Reports[0]
}

// worstOutcome returns the outcome of a field, or the worst one of several.
func worstOutcome(r migrate.Report, path string) source.Outcome {
	var worst source.Outcome
	for _, e := range r.Entries {
		if e.Path == path && (worst == "" || worst == source.Preserved || e.Outcome == source.Dropped) {
			worst = e.Outcome
		}
	}
	return worst
}

func TestFramework(t *testing.T) {
	// job returns a Job with one task, whose container has the given fields.
	job := func(container string) string {
		return "{tasks: [{name: worker, replicas: 1, " + podTemplateYAML(container) + "}]}"
	}
	tests := []struct {
		name, spec, chosen, want, mistake string
	}{
		{
			name: "plugin precedes commands", want: "pytorch",
			spec: "{plugins: {pytorch: []}, tasks: [{name: worker, replicas: 1, " + podTemplateYAML("command: [mpirun]") + "}]}",
		},
		{
			name: "plugin precedes the user's choice", chosen: "jax", want: "pytorch",
			spec: "{plugins: {pytorch: []}, tasks: [{name: worker, replicas: 1, " + podTemplateYAML("command: [run]") + "}]}",
		},
		{name: "user's choice precedes commands", chosen: "jax", want: "jax", spec: job("command: [torchrun, x.py]")},
		{
			name: "command of several words", want: "pytorch",
			spec: job("command: [python, -m, torch.distributed.run, x.py]"),
		},
		{
			name: "program in the arguments", want: "deepspeed",
			spec: job("command: [sh, -c], args: ['cd /x && deepspeed x.py']"),
		},
		{
			name: "horovodrun precedes the mpirun that it calls", want: "horovod",
			spec: job("command: [horovodrun, --mpi-args, mpirun]"),
		},
		{name: "variable", want: "tensorflow", spec: job("env: [{name: TF_CONFIG, value: x}]")},
		{
			name: "variable of several frameworks comes last", want: "xgboost",
			spec: job("command: [python, -c, 'import xgboost'], env: [{name: MASTER_ADDR, value: x}]"),
		},
		{name: "only a variable of several frameworks", want: "pytorch", spec: job("env: [{name: MASTER_ADDR, value: x}]")},
		{name: "no framework", want: "generic", spec: job("command: [run]")},
		{
			name: "unknown framework", chosen: "caffe", mistake: "--framework=caffe is not supported",
			spec: job("command: [run]"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, report := migrateJob(t, migrate.Migrator{Framework: tt.chosen}, volcanoJobYAML(tt.spec))
			if tt.mistake != "" {
				if len(out) > 0 || !strings.Contains(strings.Join(report.Errors, "\n"), tt.mistake) {
					t.Errorf("got %d workloads and the mistakes %q, want %q", len(out), report.Errors, tt.mistake)
				}
				return
			}
			if len(out) == 0 {
				t.Fatalf("no workloads: %q", report.Errors)
			}
			for name, w := range out {
				if got := w.Meta().Labels[gang.LabelFramework]; got != tt.want {
					t.Errorf("framework of %s = %s, want %s", name, got, tt.want)
				}
			}
		})
	}
}

func TestRoles(t *testing.T) {
	task := func(name, container string) string {
		return "{name: " + name + ", replicas: 1, " + podTemplateYAML(container) + "}"
	}
	masterAndWorker := map[string]string{"train-master": "master", "train-worker": "worker"}
	launcherAndWorker := map[string]string{"train-launcher": "launcher", "train-worker": "worker"}
	tests := []struct {
		name, framework, tasks string
		want                   map[string]string // by workload
	}{
		{
			name: "names of the tasks", framework: "pytorch", want: masterAndWorker,
			tasks: task("master", "command: [a]") + "," + task("worker", "command: [b]"),
		},
		{
			name: "last words of the names", framework: "paddle", want: masterAndWorker,
			tasks: task("ctr-trainer", "command: [a]") + "," + task("ctr-pserver", "command: [b]"),
		},
		{
			name: "names that start with the framework", framework: "mpi", want: launcherAndWorker,
			tasks: task("mpimaster", "command: [a]") + "," + task("mpiworker", "command: [b]"),
		},
		{
			name: "command of the launcher", framework: "mpi", want: launcherAndWorker,
			tasks: task("alpha", "command: [b]") + "," + task("beta", "command: [mpirun, ./x]"),
		},
		{
			name: "one task has the default role", framework: "mpi", want: map[string]string{"train": ""},
			tasks: task("worker", "command: [mpirun, ./x]"),
		},
		{
			name: "one task of deepspeed", framework: "deepspeed", want: map[string]string{"train": ""},
			tasks: task("master", "command: [deepspeed, x.py]"),
		},
		{
			name: "one task with another name", framework: "jax", want: map[string]string{"train": ""},
			tasks: task("alpha", "command: [x]"),
		},
		{
			name: "task without a name", framework: "jax", want: map[string]string{"train": ""},
			tasks: "{replicas: 1, " + podTemplateYAML("command: [x]") + "}",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, report := migrateJob(t, migrate.Migrator{Framework: tt.framework}, volcanoJobYAML("{tasks: ["+tt.tasks+"]}"))
			got := map[string]string{}
			for name, w := range out {
				got[name] = w.Meta().Labels[gang.LabelRole]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("roles (-want +got), mistakes %q:\n%s", report.Errors, diff)
			}
		})
	}
}

// TestSuccess checks the success policy of each workload. An empty value means the framework's
// default.
func TestSuccess(t *testing.T) {
	task := func(name string, replicas, policies string) string {
		return "{name: " + name + ", replicas: " + replicas + ", policies: [" + policies + "], " +
			podTemplateYAML("command: ["+name+"]") + "}"
	}
	// equalTask returns a task whose template is equal to those of other tasks.
	equalTask := func(name, policies string) string {
		return "{name: " + name + ", replicas: 1, policies: [" + policies + "], " + podTemplateYAML("command: [x]") + "}"
	}
	const completes = "{event: TaskCompleted, action: CompleteJob}"
	tests := []struct {
		name, framework, spec string
		want                  map[string]string // by workload
	}{
		{
			name: "role that determines completion in the framework", framework: "pytorch",
			spec: "tasks: [" + task("master", "1", completes) + "," + task("worker", "2", "") + "]",
			want: map[string]string{"Job train-master": "", "Job train-worker": ""},
		},
		{
			name: "another role", framework: "pytorch",
			spec: "tasks: [" + task("master", "1", "") + "," + task("worker", "2", completes) + "]",
			want: map[string]string{"Job train-master": "worker", "Job train-worker": "worker"},
		},
		{
			name: "without a policy all ranks must succeed", framework: "pytorch",
			spec: "tasks: [" + task("master", "1", "") + "," + task("worker", "2", "") + "]",
			want: map[string]string{"Job train-master": "all", "Job train-worker": "all"},
		},
		{
			name: "one workload without a policy", framework: "pytorch",
			spec: "tasks: [" + equalTask("master", "") + "," + equalTask("worker", "") + "]",
			want: map[string]string{"Job train": ""},
		},
		{
			name: "rank 0 of one workload", framework: "pytorch",
			spec: "tasks: [" + equalTask("master", completes) + "," + equalTask("worker", "") + "]",
			want: map[string]string{"Job train": "rank0"},
		},
		{
			name: "workers with the template of the master", framework: "pytorch",
			spec: "tasks: [" + equalTask("master", "") + "," + equalTask("worker", completes) + "]",
			want: map[string]string{"Job train-master": "worker", "Job train-worker": "worker"},
		},
		{
			name: "only task", framework: "pytorch",
			spec: "tasks: [" + task("worker", "2", completes) + "]", want: map[string]string{"Job train": ""},
		},
		{
			name: "policy of the job applies to any task", framework: "pytorch",
			spec: "policies: [" + completes + "], tasks: [" + task("master", "1", "") + "," + task("worker", "2", "") + "]",
			want: map[string]string{"Job train-master": "", "Job train-worker": ""},
		},
		{
			name: "workers with parameter servers, which never finish", framework: "tensorflow",
			spec: "tasks: [" + task("ps", "1", "") + "," + task("worker", "2", completes) + "]",
			want: map[string]string{"StatefulSet train-ps": "worker", "Job train-worker": "worker"},
		},
		{
			name: "parameter servers that determine completion", framework: "tensorflow",
			spec: "tasks: [" + task("ps", "1", completes) + "," + task("worker", "2", "") + "]",
			want: map[string]string{"Job train-ps": "ps", "Job train-worker": "ps"},
		},
		{
			name: "launcher without a policy", framework: "mpi",
			spec: "tasks: [" + task("master", "1", "") + "," + task("worker", "2", "") + "]",
			want: map[string]string{"Job train-launcher": "", "StatefulSet train-worker": ""},
		},
		{
			name: "TTL requires Jobs", framework: "mpi",
			spec: "ttlSecondsAfterFinished: 1, tasks: [" + task("master", "1", "") + "," + task("worker", "2", "") + "]",
			want: map[string]string{"Job train-launcher": "", "Job train-worker": ""},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := "{policies: [{event: PodEvicted, action: RestartJob}], " + tt.spec + "}"
			if strings.HasPrefix(tt.spec, "policies") {
				spec = "{" + tt.spec + "}"
			}
			out, report := migrateJob(t, migrate.Migrator{Framework: tt.framework}, volcanoJobYAML(spec))
			got := map[string]string{}
			for name, w := range out {
				got[string(w.Kind())+" "+name] = w.Meta().Annotations[gang.AnnotationSuccessPolicy]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("success policies (-want +got), mistakes %q:\n%s", report.Errors, diff)
			}
		})
	}
}

// formatRules formats a podFailurePolicy as one line for each rule.
func formatRules(p *batchv1.PodFailurePolicy) []string {
	if p == nil {
		return nil
	}
	var out []string
	for _, r := range p.Rules {
		text := string(r.Action)
		if r.OnExitCodes != nil {
			codes, _ := yaml.Marshal(r.OnExitCodes.Values)
			values := strings.Join(strings.Fields(strings.ReplaceAll(string(codes), "- ", "")), " ")
			text += " " + string(r.OnExitCodes.Operator) + " [" + values + "]"
		}
		for _, c := range r.OnPodConditions {
			text += " " + string(c.Type)
		}
		out = append(out, text)
	}
	return out
}

func TestRemoveSSHDCommand(t *testing.T) {
	tests := []struct {
		name, command string
		dropped       bool
	}{
		{
			name: "usual command", dropped: true,
			command: `command: [/bin/sh, -c, "mkdir -p /var/run/sshd; /usr/sbin/sshd -D;"]`,
		},
		{
			name: "several lines", dropped: true,
			command: `command: [bash, -c, "set -e\nmkdir -p /run/sshd && exec /usr/sbin/sshd -De\n"]`,
		},
		{name: "without a shell", command: `command: [/usr/sbin/sshd, -D]`, dropped: true},
		{name: "script as argument", command: `command: [sh, -c], args: ["/usr/sbin/sshd; sleep infinity"]`, dropped: true},
		{name: "no command", command: `workingDir: /home`},
		{name: "a command that waits", command: `command: [sleep, infinity]`, dropped: true},
		{name: "more than sshd", command: `command: [sh, -c, "pip install x; /usr/sbin/sshd -D"]`},
		{name: "sshd with an explicit port", command: `command: [/usr/sbin/sshd, -D, -p, "22"]`, dropped: true},
		{name: "another program", command: `command: [python, serve.py]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, report := migrateJob(t, migrate.Migrator{}, volcanoJobYAML("{plugins: {mpi: []}, tasks: ["+
				"{name: master, replicas: 1, "+podTemplateYAML("command: [mpirun, x]")+"}, "+
				"{name: worker, replicas: 2, "+podTemplateYAML(tt.command)+"}]}"))
			w, ok := out["train-worker"]
			if !ok {
				t.Fatalf("no worker: %q", report.Errors)
			}
			main := w.Template().Spec.Containers[0]
			outcome := worstOutcome(report, "spec.tasks[1].template.spec.containers[0].command")
			if got := outcome == source.Changed; got != tt.dropped || tt.dropped && len(main.Command)+len(main.Args) > 0 {
				t.Errorf("dropped = %v with the command %q, want %v", got, main.Command, tt.dropped)
			}
		})
	}
}

func TestInferSlotsPerWorker(t *testing.T) {
	tests := []struct{ name, command, want string }{
		{name: "one process for each host", command: "mpiexec -np 4 ./x", want: "1"},
		{name: "several processes for each host", command: "mpirun -np 16 ./x", want: "4"},
		{name: "fewer processes on the last host", command: "mpirun -n 10 ./x", want: "3"},
		{name: "horovodrun", command: "horovodrun --num-proc=8 ./x", want: "2"},
		{name: "no number", command: "mpirun ./x", want: "1"},
		{name: "number above the maximum", command: "mpirun -np 999999 ./x", want: "1024"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, report := migrateJob(t, migrate.Migrator{}, volcanoJobYAML("{plugins: {mpi: []}, tasks: ["+
				"{name: master, replicas: 1, "+podTemplateYAML("command: [sh, -c, '"+tt.command+"']")+"}, "+
				"{name: worker, replicas: 4, "+podTemplateYAML("workingDir: /home")+"}]}"))
			if len(out) != 2 {
				t.Fatalf("%d workloads: %q", len(out), report.Errors)
			}
			for name, w := range out {
				if got := w.Meta().Annotations[gang.AnnotationSlotsPerWorker]; got != tt.want {
					t.Errorf("slots of %s = %s, want %s", name, got, tt.want)
				}
			}
		})
	}
}

func TestScheduler(t *testing.T) {
	const request = "minAvailable: 2, queue: research, priorityClassName: high, networkTopology: {mode: hard}, "
	tests := []struct {
		name, schedulerName string
		cluster             source.Scheduler
		wantScheduler       string
		wantClass           string
		queue, minAvailable source.Outcome
	}{
		{
			name: "Volcano in the job", schedulerName: "schedulerName: volcano, ",
			wantScheduler: "volcano", queue: source.Preserved, minAvailable: source.Preserved,
		},
		{
			name: "Volcano in the cluster", cluster: source.SchedulerVolcano,
			wantScheduler: "volcano", queue: source.Preserved, minAvailable: source.Preserved,
		},
		{name: "no scheduler", wantClass: "high", queue: source.Dropped, minAvailable: source.Dropped},
		{
			name: "unknown scheduler", schedulerName: "schedulerName: mine, ", cluster: source.SchedulerVolcano,
			wantScheduler: "mine", wantClass: "high", queue: source.Dropped, minAvailable: source.Dropped,
		},
		{
			name: "coscheduling instead of Volcano", schedulerName: "schedulerName: volcano, ",
			cluster:   source.SchedulerCoscheduling,
			wantClass: "high", queue: source.Dropped, minAvailable: source.Preserved,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := migrate.Migrator{Scheduler: tt.cluster}
			out, report := migrateJob(t, m, volcanoJobYAML("{"+tt.schedulerName+request+
				"plugins: {pytorch: []}, tasks: [{name: worker, replicas: 2, "+podTemplateYAML("command: [x]")+"}]}"))
			w, ok := out["train"]
			if !ok {
				t.Fatalf("no workload: %q", report.Errors)
			}
			spec := w.Template().Spec
			if spec.SchedulerName != tt.wantScheduler || spec.PriorityClassName != tt.wantClass {
				t.Errorf("scheduler = %q and class = %q, want %q and %q",
					spec.SchedulerName, spec.PriorityClassName, tt.wantScheduler, tt.wantClass)
			}
			if got := worstOutcome(report, "spec.queue"); got != tt.queue {
				t.Errorf("outcome of queue = %s, want %s", got, tt.queue)
			}
			if got := worstOutcome(report, "spec.minAvailable"); got != tt.minAvailable {
				t.Errorf("outcome of minAvailable = %s, want %s", got, tt.minAvailable)
			}
		})
	}
}

// FuzzRead migrates any input. Nothing panics, and the report of a job without output has errors.
func FuzzRead(f *testing.F) {
	dir := filepath.Join("..", "testdata", "volcano-job")
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Count(e.Name(), ".") > 1 {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
			f.Add(part)
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, err := manifest.Read("fuzz.yaml", bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range (migrate.Migrator{Framework: "mpi", Scheduler: source.SchedulerVolcano}).Migrate(docs).Reports {
			if len(r.Outputs) == 0 && !r.Failed() {
				t.Errorf("%s has neither output nor errors", r.Object)
			}
		}
	})
}
