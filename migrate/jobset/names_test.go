package jobset

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// set is one of the given jobs, placed; those without a role stand beside the gang.
func set(jobs ...*Job) *Set {
	var account ledger.Ledger
	root := account.Root(map[string]any{"spec": map[string]any{}})
	s := &Set{Object: origin.Object{Root: root}, Blueprint: &blueprint.Blueprint{Name: "js", Framework: "pytorch", Keys: map[string]string{}},
		Spec: root.Get("spec"), Jobs: jobs}
	for _, j := range jobs {
		j.Replicas, j.Pods, j.Node = max(j.Replicas, 1), max(j.Pods, 1), root
	}
	s.placed()
	return s
}

func TestNames(t *testing.T) {
	several := set(&Job{Name: "w", Role: "worker", Replicas: 3, Pods: 2})
	single := set(&Job{Name: "w", Role: "worker", Pods: 4})
	each := set(&Job{Name: "w", Role: "worker", Replicas: 4})
	roles := set(&Job{Name: "leader", Role: "master"}, &Job{Name: "w", Role: "worker", Pods: 2}, &Job{Name: "drive"})
	for _, c := range []struct {
		reason     string
		set        *Set
		text, want string
	}{
		{"the index of the pod is that of the workload", single, "js-w-0-3.js", "js-3.js"},
		{"a complete name keeps its end", single, "tcp://js-w-0-0.js.team.svc.cluster.local:29500", "tcp://js-0.js.team.svc.cluster.local:29500"},
		{"a host alone", single, "--host=js-w-0-1,js-w-0-2", "--host=js-1,js-2"},
		{"an index that a shell puts in", single, "js-w-0-$i.js js-w-0-${i}.js js-w-0-$(I).js", "js-$i.js js-${i}.js js-$(I).js"},
		{"the only Job has the index 0", single, "js-w-${JOB}-2.js", "js-2.js"},
		{"a name of which this is a part is another", single, "my-js-w-0-0.js js-w-0-0-x js-w-0-0x", "my-js-w-0-0.js js-w-0-0-x js-w-0-0x"},
		{"another domain is not the set's", single, "js-w-0-0.jsx js-w-0-0.other", "js-0.jsx js-0.other"},
		{"a pod that there is not", single, "js-w-0-4.js js-w-1-0.js", "js-w-0-4.js js-w-1-0.js"},
		{"Jobs follow each other", several, "js-w-0-1.js js-w-2-0.js js-w-2-1.js", "js-1.js js-4.js js-5.js"},
		{"the first Job's begin at 0", several, "js-w-0-$i.js", "js-$i.js"},
		{"an index cannot be computed in a text", several, "js-w-1-$i.js js-w-$j-0.js", "js-w-1-$i.js js-w-$j-0.js"},
		{"one pod a Job", each, "js-w-2-0.js js-w-$j-0.js js-w-{j}-0.js", "js-2.js js-$j.js js-{j}.js"},
		{"each role has a workload", roles, "js-leader-0-0.js,js-w-0-1.js", "js-master-0.js,js-worker-1.js"},
		{"what stands beside keeps its name, in a Service of its own", roles, "js-drive-0-0.js:80", "js-drive-0-0.js-drive-0:80"},
		{"the name of the set may be in a variable", single, "$(NAME)-w-0-1.$(NAME) ${NAME}-w-0-2.js $NAME-w-0-3.$NAME", "js-1.js js-2.js js-3.js"},
	} {
		container := &corev1.Container{Env: []corev1.EnvVar{{Name: "NAME", Value: "js"}}}
		if got := c.set.renamed(nil, container, c.text); got != c.want {
			t.Errorf("%s: %q became %q, want %q", c.reason, c.text, got, c.want)
		}
	}
}

func TestRecognize(t *testing.T) {
	for _, c := range []struct {
		reason    string
		container corev1.Container
		want      string
	}{
		{"torchrun", corev1.Container{Command: []string{"bash", "-c", "torchrun --nnodes=2 t.py"}}, "pytorch"},
		{"the variable that many read", corev1.Container{Env: []corev1.EnvVar{{Name: "MASTER_ADDR"}}}, "pytorch"},
		{"what launches wins over what is launched", corev1.Container{Command: []string{"mpirun", "python", "-m", "torch.distributed.run"}}, "mpi"},
		{"Horovod's launcher", corev1.Container{Args: []string{"horovodrun -np 4 python t.py"}}, "horovod"},
		{"DeepSpeed's launcher, last of the words", corev1.Container{Command: []string{"/bin/deepspeed"}}, "deepspeed"},
		{"a file of that name launches nothing", corev1.Container{Command: []string{"python", "deepspeed.py"}}, ""},
		{"JAX has variables of its own", corev1.Container{Env: []corev1.EnvVar{{Name: "JAX_COORDINATOR_ADDRESS"}, {Name: "MASTER_ADDR"}}}, "jax"},
		{"XGBoost's tracker", corev1.Container{Env: []corev1.EnvVar{{Name: "DMLC_TRACKER_URI"}}}, "xgboost"},
		{"TensorFlow's cluster", corev1.Container{Env: []corev1.EnvVar{{Name: "TF_CONFIG"}}}, "tensorflow"},
		{"nothing tells", corev1.Container{Command: []string{"./run"}}, ""},
	} {
		j := &Job{Name: "a", Role: ""}
		j.Template.Spec.Template.Spec.Containers = []corev1.Container{c.container}
		s := set(j)
		s.Blueprint.Framework = ""
		s.recognize()
		if got := s.Blueprint.Framework; got != c.want {
			t.Errorf("%s: %q, want %q", c.reason, got, c.want)
		}
	}
}

func TestCast(t *testing.T) {
	job := func(name, command string) *Job {
		j := &Job{Name: name}
		j.Template.Spec = batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: []string{command}}}}}}
		return j
	}
	for _, c := range []struct {
		reason, framework string
		jobs              []*Job
		want              []string
	}{
		{"one job is all ranks, whatever its name", "pytorch", []*Job{job("abc", "torchrun ")}, []string{"worker"}},
		{"a leader is the master", "pytorch", []*Job{job("leader", "a"), job("workers", "b")}, []string{"master", "worker"}},
		{"a driver that is not known to train stands beside", "pytorch", []*Job{job("driver", "./drive"), job("workers", "torchrun ")}, []string{"", "worker"}},
		{"the job with mpirun launches", "mpi", []*Job{job("nodes", "sshd"), job("main", "mpirun ")}, []string{"worker", "launcher"}},
		{"a launcher without workers", "mpi", []*Job{job("main", "mpirun ")}, []string{"launcher"}},
		{"DeepSpeed's launcher needs workers", "deepspeed", []*Job{job("main", "deepspeed ")}, []string{"worker"}},
		{"the parts of TensorFlow", "tensorflow", []*Job{job("master", "a"), job("ps", "b"), job("Evaluator", "c"), job("worker", "d")}, []string{"chief", "ps", "evaluator", "worker"}},
	} {
		s := set(c.jobs...)
		s.Blueprint.Framework = c.framework
		s.cast()
		for i, j := range s.Jobs {
			if j.Role != c.want[i] {
				t.Errorf("%s: job %s is %q, want %q", c.reason, j.Name, j.Role, c.want[i])
			}
		}
	}
}

func TestSlots(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"mpirun -np 8 ./a", "2"},
		{"mpirun -n 6 ./a", "2"}, // 6 on 4 hosts
		{"mpirun --np=4 ./a", "1"},
		{"mpirun -np 64 -npernode 16 ./a", "16"},
		{"mpirun --map-by ppr:8:node ./a", "8"},
		{"mpiexec -ppn 3 ./a", "3"},
		{"mpirun ./a -np2", "1"},
		{"mpirun -np 99999999999999999999 ./a", "1"},
	} {
		launcher, worker := &Job{Name: "l", Role: "launcher"}, &Job{Name: "w", Role: "worker", Pods: 4}
		launcher.Template.Spec.Template.Spec.Containers = []corev1.Container{{Command: []string{"sh", "-c", c.command}}}
		s := set(launcher, worker)
		s.Blueprint.Framework = "mpi"
		s.slots()
		if got := s.Blueprint.Keys["rollcall.training/slots"]; got != c.want {
			t.Errorf("%s: %s slots, want %s", c.command, got, c.want)
		}
	}
}
