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
	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// job is a Volcano Job with the given spec in YAML's flow style.
func job(spec string) string {
	return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\nspec: " + spec + "\n"
}

// pods is a task's template of one container.
func pods(container string) string {
	return "template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'example.com/x:1', " + container + "}]}}"
}

// run migrates a manifest and returns its workloads by name, and its report.
func run(t *testing.T, m migrate.Migrator, text string) (map[string]gang.Workload, migrate.Report) {
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

// outcome is what became of a field, the worst where there are several entries.
func outcome(r migrate.Report, path string) ledger.Outcome {
	var worst ledger.Outcome
	for _, e := range r.Entries {
		if e.Path == path && (worst == "" || worst == ledger.Carried || e.Outcome == ledger.Lost) {
			worst = e.Outcome
		}
	}
	return worst
}

func TestFramework(t *testing.T) {
	for _, c := range []struct {
		reason, spec, named, want, mistake string
	}{
		{reason: "the plugin says it", want: "pytorch",
			spec: "{plugins: {pytorch: []}, tasks: [{name: worker, replicas: 1, " + pods("command: [mpirun]") + "}]}"},
		{reason: "the plugin says more than the user", named: "jax", want: "pytorch",
			spec: "{plugins: {pytorch: []}, tasks: [{name: worker, replicas: 1, " + pods("command: [run]") + "}]}"},
		{reason: "the user says more than the command", named: "jax", want: "jax",
			spec: "{tasks: [{name: worker, replicas: 1, " + pods("command: [torchrun, x.py]") + "}]}"},
		{reason: "a command in several words", want: "pytorch",
			spec: "{tasks: [{name: worker, replicas: 1, " + pods("command: [python, -m, torch.distributed.run, x.py]") + "}]}"},
		{reason: "arguments count", want: "deepspeed",
			spec: "{tasks: [{name: worker, replicas: 1, " + pods("command: [sh, -c], args: ['cd /x && deepspeed x.py']") + "}]}"},
		{reason: "horovodrun comes before the mpirun that it calls", want: "horovod",
			spec: "{tasks: [{name: main, replicas: 1, " + pods("command: [horovodrun, --mpi-args, mpirun]") + "}]}"},
		{reason: "a variable tells", want: "tensorflow",
			spec: "{tasks: [{name: worker, replicas: 1, " + pods("env: [{name: TF_CONFIG, value: x}]") + "}]}"},
		{reason: "variables that several frameworks have come last", want: "xgboost",
			spec: "{tasks: [{name: worker, replicas: 1, " + pods("command: [python, -c, 'import xgboost'], env: [{name: MASTER_ADDR, value: x}]") + "}]}"},
		{reason: "nobody knows", mistake: "name it with --framework",
			spec: "{tasks: [{name: worker, replicas: 1, " + pods("command: [run]") + "}]}"},
		{reason: "there is none of that name", named: "caffe", mistake: "--framework=caffe is none of Rollcall's",
			spec: "{tasks: [{name: worker, replicas: 1, " + pods("command: [run]") + "}]}"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			out, report := run(t, migrate.Migrator{Framework: c.named}, job(c.spec))
			if c.mistake != "" {
				if len(out) > 0 || !strings.Contains(strings.Join(report.Mistakes, "\n"), c.mistake) {
					t.Errorf("got %d workloads and the mistakes %q, want %q", len(out), report.Mistakes, c.mistake)
				}
				return
			}
			if len(out) == 0 {
				t.Fatalf("no workloads: %q", report.Mistakes)
			}
			for name, w := range out {
				if got := w.Meta().Labels[gang.LabelFramework]; got != c.want {
					t.Errorf("%s is of %s, want %s", name, got, c.want)
				}
			}
		})
	}
}

func TestRoles(t *testing.T) {
	task := func(name, container string) string {
		return "{name: " + name + ", replicas: 1, " + pods(container) + "}"
	}
	for _, c := range []struct {
		reason, framework, tasks string
		want                     map[string]string
	}{
		{"by name", "pytorch", task("master", "command: [a]") + "," + task("worker", "command: [b]"),
			map[string]string{"train-master": "master", "train-worker": "worker"}},
		{"by the end of a name", "paddle", task("ctr-trainer", "command: [a]") + "," + task("ctr-pserver", "command: [b]"),
			map[string]string{"train-master": "master", "train-worker": "worker"}},
		{"by a name with the framework in it", "mpi", task("mpimaster", "command: [a]") + "," + task("mpiworker", "command: [b]"),
			map[string]string{"train-launcher": "launcher", "train-worker": "worker"}},
		{"the launcher by what it calls", "mpi", task("alpha", "command: [b]") + "," + task("beta", "command: [mpirun, ./x]"),
			map[string]string{"train-launcher": "launcher", "train-worker": "worker"}},
		{"one task launches by itself, in the default role", "mpi", task("worker", "command: [mpirun, ./x]"), map[string]string{"train": ""}},
		{"one task of deepspeed", "deepspeed", task("master", "command: [deepspeed, x.py]"), map[string]string{"train": ""}},
		{"one task is all there is", "jax", task("alpha", "command: [x]"), map[string]string{"train": ""}},
		{"a task without a name", "jax", "{replicas: 1, " + pods("command: [x]") + "}", map[string]string{"train": ""}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			out, report := run(t, migrate.Migrator{Framework: c.framework}, job("{tasks: ["+c.tasks+"]}"))
			got := map[string]string{}
			for name, w := range out {
				got[name] = w.Meta().Labels[gang.LabelRole]
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("roles (-want +got), mistakes %q:\n%s", report.Mistakes, diff)
			}
		})
	}
}

// TestSuccess says whose end is the gang's: "" leaves it to the framework.
func TestSuccess(t *testing.T) {
	task := func(name string, replicas, own string) string {
		return "{name: " + name + ", replicas: " + replicas + ", policies: [" + own + "], " + pods("command: ["+name+"]") + "}"
	}
	same := func(name, own string) string {
		return "{name: " + name + ", replicas: 1, policies: [" + own + "], " + pods("command: [x]") + "}"
	}
	const completes = "{event: TaskCompleted, action: CompleteJob}"
	for _, c := range []struct {
		reason, framework, spec string
		want                    map[string]string // by workload
	}{
		{"the framework's own part", "pytorch", "tasks: [" + task("master", "1", completes) + "," + task("worker", "2", "") + "]",
			map[string]string{"Job train-master": "", "Job train-worker": ""}},
		{"another part", "pytorch", "tasks: [" + task("master", "1", "") + "," + task("worker", "2", completes) + "]",
			map[string]string{"Job train-master": "worker", "Job train-worker": "worker"}},
		{"nobody: all have to end", "pytorch", "tasks: [" + task("master", "1", "") + "," + task("worker", "2", "") + "]",
			map[string]string{"Job train-master": "all", "Job train-worker": "all"}},
		{"nobody, in one workload", "pytorch", "tasks: [" + same("master", "") + "," + same("worker", "") + "]",
			map[string]string{"Job train": ""}},
		{"rank 0 of one workload", "pytorch", "tasks: [" + same("master", completes) + "," + same("worker", "") + "]",
			map[string]string{"Job train": "rank0"}},
		{"the workers of one template", "pytorch", "tasks: [" + same("master", "") + "," + same("worker", completes) + "]",
			map[string]string{"Job train-master": "worker", "Job train-worker": "worker"}},
		{"the only task", "pytorch", "tasks: [" + task("worker", "2", completes) + "]", map[string]string{"Job train": ""}},
		{"any task of the job", "pytorch", "policies: [" + completes + "], tasks: [" + task("master", "1", "") + "," + task("worker", "2", "") + "]",
			map[string]string{"Job train-master": "", "Job train-worker": ""}},
		{"the workers beside ps, which never ends", "tensorflow", "tasks: [" + task("ps", "1", "") + "," + task("worker", "2", completes) + "]",
			map[string]string{"StatefulSet train-ps": "", "Job train-worker": ""}},
		{"a ps that decides does end", "tensorflow", "tasks: [" + task("ps", "1", completes) + "," + task("worker", "2", "") + "]",
			map[string]string{"Job train-ps": "ps", "Job train-worker": "ps"}},
		{"the launcher, as always", "mpi", "tasks: [" + task("master", "1", "") + "," + task("worker", "2", "") + "]",
			map[string]string{"Job train-launcher": "", "StatefulSet train-worker": ""}},
		{"StatefulSets do not go away by themselves", "mpi", "ttlSecondsAfterFinished: 1, tasks: [" + task("master", "1", "") + "," + task("worker", "2", "") + "]",
			map[string]string{"Job train-launcher": "", "Job train-worker": ""}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			const evicted = "{policies: [{event: PodEvicted, action: RestartJob}], "
			spec := evicted + c.spec + "}"
			if strings.HasPrefix(c.spec, "policies") {
				spec = "{" + c.spec + "}"
			}
			out, report := run(t, migrate.Migrator{Framework: c.framework}, job(spec))
			got := map[string]string{}
			for name, w := range out {
				got[string(w.Kind())+" "+name] = w.Meta().Annotations[gang.AnnotationSuccessPolicy]
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("success policies (-want +got), mistakes %q:\n%s", report.Mistakes, diff)
			}
		})
	}
}

// rules writes a podFailurePolicy in short.
func rules(p *batchv1.PodFailurePolicy) []string {
	if p == nil {
		return nil
	}
	var out []string
	for _, r := range p.Rules {
		text := string(r.Action)
		if r.OnExitCodes != nil {
			codes, _ := yaml.Marshal(r.OnExitCodes.Values)
			text += " " + string(r.OnExitCodes.Operator) + " [" + strings.Join(strings.Fields(strings.ReplaceAll(string(codes), "- ", "")), " ") + "]"
		}
		for _, c := range r.OnPodConditions {
			text += " " + string(c.Type)
		}
		out = append(out, text)
	}
	return out
}

func TestDaemon(t *testing.T) {
	for _, c := range []struct {
		reason, command string
		dropped         bool
	}{
		{"the usual command", `command: [/bin/sh, -c, "mkdir -p /var/run/sshd; /usr/sbin/sshd -D;"]`, true},
		{"in lines", `command: [bash, -c, "set -e\nmkdir -p /run/sshd && exec /usr/sbin/sshd -De\n"]`, true},
		{"without a shell", `command: [/usr/sbin/sshd, -D]`, true},
		{"as arguments", `command: [sh, -c], args: ["/usr/sbin/sshd; sleep infinity"]`, true},
		{"no command at all", `workingDir: /home`, false},
		{"another program", `command: [sleep, infinity]`, false},
		{"more than sshd", `command: [sh, -c, "pip install x; /usr/sbin/sshd -D"]`, false},
		{"sshd with a port of its own", `command: [/usr/sbin/sshd, -D, -p, "22"]`, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			out, report := run(t, migrate.Migrator{}, job("{plugins: {mpi: []}, tasks: [{name: master, replicas: 1, "+
				pods("command: [mpirun, x]")+"}, {name: worker, replicas: 2, "+pods(c.command)+"}]}"))
			w, ok := out["train-worker"]
			if !ok {
				t.Fatalf("no worker: %q", report.Mistakes)
			}
			main := w.Template().Spec.Containers[0]
			entry := outcome(report, "spec.tasks[1].template.spec.containers[0].command")
			if got := entry == ledger.Changed; got != c.dropped || c.dropped && len(main.Command)+len(main.Args) > 0 {
				t.Errorf("dropped: %v with the command %q, want %v", got, main.Command, c.dropped)
			}
		})
	}
}

func TestSlots(t *testing.T) {
	for _, c := range []struct{ reason, command, want string }{
		{"as many as hosts", "mpiexec -np 4 ./x", "1"},
		{"several on each", "mpirun -np 16 ./x", "4"},
		{"the last host has fewer", "mpirun -n 10 ./x", "3"},
		{"horovodrun", "horovodrun --num-proc=8 ./x", "2"},
		{"no number", "mpirun ./x", "1"},
		{"more than Rollcall takes", "mpirun -np 999999 ./x", "1"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			out, report := run(t, migrate.Migrator{}, job("{plugins: {mpi: []}, tasks: [{name: master, replicas: 1, "+
				pods("command: [sh, -c, '"+c.command+"']")+"}, {name: worker, replicas: 4, "+pods("workingDir: /home")+"}]}"))
			if len(out) != 2 {
				t.Fatalf("%d workloads: %q", len(out), report.Mistakes)
			}
			for name, w := range out {
				if got := w.Meta().Annotations[gang.AnnotationSlots]; got != c.want {
					t.Errorf("%s has %s slots, want %s", name, got, c.want)
				}
			}
		})
	}
}

func TestScheduler(t *testing.T) {
	const wishes = "minAvailable: 2, queue: research, priorityClassName: high, networkTopology: {mode: hard}, "
	for _, c := range []struct {
		reason, name string
		cluster      origin.Scheduler
		scheduler    string
		class        string
		queue, least ledger.Outcome
	}{
		{"Volcano by the job's own word", "schedulerName: volcano, ", "", "volcano", "", ledger.Carried, ledger.Carried},
		{"Volcano by the user's", "", origin.Volcano, "volcano", "", ledger.Carried, ledger.Carried},
		{"nobody's", "", "", "", "high", ledger.Lost, ledger.Lost},
		{"another", "schedulerName: mine, ", origin.Volcano, "mine", "high", ledger.Lost, ledger.Lost},
		{"coscheduling instead", "schedulerName: volcano, ", origin.Coscheduling, "", "high", ledger.Lost, ledger.Carried},
	} {
		t.Run(c.reason, func(t *testing.T) {
			out, report := run(t, migrate.Migrator{Scheduler: c.cluster}, job("{"+c.name+wishes+"plugins: {pytorch: []}, tasks: [{name: worker, replicas: 2, "+pods("command: [x]")+"}]}"))
			w, ok := out["train"]
			if !ok {
				t.Fatalf("no workload: %q", report.Mistakes)
			}
			spec := w.Template().Spec
			if spec.SchedulerName != c.scheduler || spec.PriorityClassName != c.class {
				t.Errorf("scheduler %q and class %q, want %q and %q", spec.SchedulerName, spec.PriorityClassName, c.scheduler, c.class)
			}
			if got := outcome(report, "spec.queue"); got != c.queue {
				t.Errorf("the queue is %s, want %s", got, c.queue)
			}
			if got := outcome(report, "spec.minAvailable"); got != c.least {
				t.Errorf("minAvailable is %s, want %s", got, c.least)
			}
		})
	}
}

// FuzzRead migrates whatever it is given: nothing panics, and what comes out has no
// mistakes, or the report has.
func FuzzRead(f *testing.F) {
	err := filepath.WalkDir(filepath.Join("..", "testdata", "volcano-job"), func(path string, e fs.DirEntry, err error) error {
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
		for _, r := range (migrate.Migrator{Framework: "mpi", Scheduler: origin.Volcano}).Migrate(docs).Reports {
			if len(r.Into) == 0 && !r.Failed() {
				t.Errorf("%s became nothing, and nobody says why", r.Object)
			}
		}
	})
}
