package jobset

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/injectors"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// newTestReader returns a Reader of a JobSet js with the given jobs. Jobs without a role are outside
// the gang.
func newTestReader(jobs ...*ReplicatedJob) *Reader {
	var recorder source.Recorder
	root := recorder.Root(map[string]any{"spec": map[string]any{}})
	s := &Reader{
		Object: source.Object{Root: root, Context: source.Context{Frameworks: injectors.Builtin().Frameworks()}},
		Gang: &ir.Gang{Name: "js", Framework: "pytorch", RollcallAnnotations: map[string]string{},
			Frameworks: injectors.Builtin().Frameworks()},
		Spec: root.Get("spec"), Jobs: jobs,
	}
	for _, j := range jobs {
		j.Replicas, j.PodsPerJob = max(j.Replicas, 1), max(j.PodsPerJob, 1)
		j.Source, j.podTemplate = root, root
	}
	s.assignWorkloads()
	return s
}

func TestRewriteText(t *testing.T) {
	severalJobs := newTestReader(&ReplicatedJob{Name: "w", Role: "worker", Replicas: 3, PodsPerJob: 2})
	oneJob := newTestReader(&ReplicatedJob{Name: "w", Role: "worker", PodsPerJob: 4})
	onePodJobs := newTestReader(&ReplicatedJob{Name: "w", Role: "worker", Replicas: 4})
	severalRoles := newTestReader(&ReplicatedJob{Name: "leader", Role: "master"},
		&ReplicatedJob{Name: "w", Role: "worker", PodsPerJob: 2}, &ReplicatedJob{Name: "drive"})
	tests := map[string]struct {
		set        *Reader
		text, want string
	}{
		"index of the pod": {
			set:  oneJob,
			text: "js-w-0-3.js",
			want: "js-3.js",
		},
		"fully qualified name keeps its end": {
			set:  oneJob,
			text: "tcp://js-w-0-0.js.team.svc.cluster.local:29500",
			want: "tcp://js-0.js.team.svc.cluster.local:29500",
		},
		"host without a domain": {
			set:  oneJob,
			text: "--host=js-w-0-1,js-w-0-2",
			want: "--host=js-1,js-2",
		},
		"index that a shell inserts": {
			set:  oneJob,
			text: "js-w-0-$i.js js-w-0-${i}.js js-w-0-$(I).js",
			want: "js-$i.js js-${i}.js js-$(I).js",
		},
		"computed index of the only Job": {
			set:  oneJob,
			text: "js-w-${JOB}-2.js",
			want: "js-2.js",
		},
		"longer names stay": {
			set:  oneJob,
			text: "my-js-w-0-0.js js-w-0-0-x js-w-0-0x",
			want: "my-js-w-0-0.js js-w-0-0-x js-w-0-0x",
		},
		"different domain stays": {
			set:  oneJob,
			text: "js-w-0-0.jsx js-w-0-0.other",
			want: "js-0.jsx js-0.other",
		},
		"pods that do not exist stay": {
			set:  oneJob,
			text: "js-w-0-4.js js-w-1-0.js",
			want: "js-w-0-4.js js-w-1-0.js",
		},
		"pods of later Jobs": {
			set:  severalJobs,
			text: "js-w-0-1.js js-w-2-0.js js-w-2-1.js",
			want: "js-1.js js-4.js js-5.js",
		},
		"computed index in the first Job": {
			set:  severalJobs,
			text: "js-w-0-$i.js",
			want: "js-$i.js",
		},
		"computed index without a rule stays": {
			set:  severalJobs,
			text: "js-w-1-$i.js js-w-$j-0.js",
			want: "js-w-1-$i.js js-w-$j-0.js",
		},
		"computed index of Jobs with one pod": {
			set:  onePodJobs,
			text: "js-w-2-0.js js-w-$j-0.js js-w-{j}-0.js",
			want: "js-2.js js-$j.js js-{j}.js",
		},
		"each role has a workload": {
			set:  severalRoles,
			text: "js-leader-0-0.js,js-w-0-1.js",
			want: "js-master-0.js,js-worker-1.js",
		},
		"job outside the gang keeps its name in its own Service": {
			set:  severalRoles,
			text: "js-drive-0-0.js:80",
			want: "js-drive-0-0.js-drive-0:80",
		},
		"variable with the name of the JobSet": {
			set:  oneJob,
			text: "$(NAME)-w-0-1.$(NAME) ${NAME}-w-0-2.js $NAME-w-0-3.$NAME",
			want: "js-1.js js-2.js js-3.js",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &corev1.Container{Args: []string{tt.text}, Env: []corev1.EnvVar{{Name: "NAME", Value: "js"}}}
			tt.set.rewriteTexts(c, map[*ReplicatedJob]int{})
			if got := c.Args[0]; got != tt.want {
				t.Errorf("%q became %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestAssignRoles(t *testing.T) {
	job := func(name, command string) *ReplicatedJob {
		j := &ReplicatedJob{Name: name}
		j.Template.Spec = batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Command: []string{command}}},
		}}}
		return j
	}
	tests := map[string]struct {
		framework string
		jobs      []*ReplicatedJob
		want      []string
	}{
		"only job is a worker": {
			framework: "pytorch",
			jobs:      []*ReplicatedJob{job("abc", "torchrun ")},
			want:      []string{"worker"},
		},
		"leader is the master": {
			framework: "pytorch",
			jobs:      []*ReplicatedJob{job("leader", "a"), job("workers", "b")},
			want:      []string{"master", "worker"},
		},
		"driver without evidence is outside the gang": {
			framework: "pytorch",
			jobs:      []*ReplicatedJob{job("driver", "./drive"), job("workers", "torchrun ")},
			want:      []string{"", "worker"},
		},
		"job with mpirun is the launcher": {
			framework: "mpi",
			jobs:      []*ReplicatedJob{job("nodes", "sshd"), job("main", "mpirun ")},
			want:      []string{"worker", "launcher"},
		},
		"launcher without workers": {
			framework: "mpi",
			jobs:      []*ReplicatedJob{job("main", "mpirun ")},
			want:      []string{"launcher"},
		},
		"launcher of DeepSpeed needs workers": {
			framework: "deepspeed",
			jobs:      []*ReplicatedJob{job("main", "deepspeed ")},
			want:      []string{"worker"},
		},
		"roles of TensorFlow": {
			framework: "tensorflow",
			jobs:      []*ReplicatedJob{job("master", "a"), job("ps", "b"), job("Evaluator", "c"), job("worker", "d")},
			want:      []string{"chief", "ps", "evaluator", "worker"},
		},
		"leader of a framework with equal ranks": {
			framework: "jax",
			jobs:      []*ReplicatedJob{job("leader", "a"), job("worker", "a")},
			want:      []string{"worker", "worker"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newTestReader(tt.jobs...)
			s.Gang.Framework = tt.framework
			s.assignRoles()
			for i, j := range s.Jobs {
				if j.Role != tt.want[i] {
					t.Errorf("job %s has the role %q, want %q", j.Name, j.Role, tt.want[i])
				}
			}
		})
	}
}

func TestInferSlotsPerWorker(t *testing.T) {
	for command, want := range map[string]string{
		"mpirun -np 8 ./a":                    "2", // 8 on 4 hosts
		"mpirun -n 6 ./a":                     "2", // 6 on 4 hosts
		"mpirun --np=4 ./a":                   "1",
		"mpirun -np 64 -npernode 16 ./a":      "16",
		"mpirun --map-by ppr:8:node ./a":      "8",
		"mpiexec -ppn 3 ./a":                  "3",
		"mpirun ./a -np2":                     "1",
		"mpirun -np 99999999999999999999 ./a": "1",
		// flags of the training program
		"mpirun -x A -mca a -c ./a -n 100":                "1",
		"mpirun --bind-to=core python -c '4'":             "1",
		"mpirun -np $N ./a -c 100":                        "1",
		"mpirun -q python train.py --map-by 4 -np 8":      "1",
		"mpirun -genv A 1 -hosts $H -ppn 3 ./a -ppn 5":    "3",
		"mpirun --oversubscribe --new 1 -np 8 ./a -np 16": "2",
		"mpirun $FLAGS -np 8 ./a":                         "2",
	} {
		t.Run(command, func(t *testing.T) {
			launcher := &ReplicatedJob{Name: "l", Role: "launcher"}
			launcher.Template.Spec.Template.Spec.Containers = []corev1.Container{{Command: []string{"sh", "-c", command}}}
			s := newTestReader(launcher, &ReplicatedJob{Name: "w", Role: "worker", PodsPerJob: 4})
			s.Gang.Framework = "mpi"
			s.inferSlotsPerWorker()
			if got := s.Gang.RollcallAnnotations["rollcall.training/slots-per-worker"]; got != want {
				t.Errorf("slots are %s, want %s", got, want)
			}
		})
	}
}
