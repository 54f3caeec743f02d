package migrate_test

import "strings"

// departure is a variable that is meant to differ from what the original operator gave.
type departure struct {
	// cases is what the names of the recordings begin with, such as "tfjob/".
	cases string
	// role is the operator's word for the pod's, or empty for all.
	role     string
	variable string
	// want judges the new value beside the former one; nil takes any, and none.
	want   func(former, got string, set bool) bool
	reason string
}

func departed(name, role, variable string) *departure {
	for i := range departures {
		d := &departures[i]
		if strings.HasPrefix(name, d.cases) && (d.role == "" || d.role == role) && d.variable == variable {
			return d
		}
	}
	return nil
}

// is wants one value.
func is(value string) func(string, string, bool) bool {
	return func(_, got string, set bool) bool { return set && got == value }
}

// ends wants a value with that end.
func ends(end string) func(string, string, bool) bool {
	return func(_, got string, set bool) bool { return set && strings.HasSuffix(got, end) }
}

// containing wants a value with that text in it.
func containing(text string) func(string, string, bool) bool {
	return func(_, got string, set bool) bool { return set && strings.Contains(got, text) }
}

// gone wants no value.
func gone(_, _ string, set bool) bool { return !set }

// counted wants a number where the operator left it to the program.
func counted(former, got string, _ bool) bool {
	return former == "auto" && got != "" && strings.Trim(got, "0123456789") == ""
}

// helpers are the operators' words for pods that do not train, with what became of them.
var helpers = map[string]string{
	"dataset-initializer": "an init container",
	"model-initializer":   "an init container",
	"driver":              "a Job of its own, without a label",
	"data":                "a Job of its own, without a label",
}

// sizes are the recordings of another number of pods than the gang has, with the reason.
var sizes = map[string]string{
	"trainjob/mpi-both-nodes":    "the trainer multiplies the launcher, and each launcher would run the whole program",
	"trainjob/mpi-runtime-nodes": "the trainer multiplies the launcher, and each launcher would run the whole program",
	"trainjob/mpi-defaults":      "the trainer multiplies the launcher, and each launcher would run the whole program",
	"trainjob/plainml":           "no framework is named, so the pods are no gang's and receive nothing",
}

// refused are the recordings of jobs that cannot be migrated, with the reason.
var refused = map[string]string{
	"jobset/groups":     "two parts train, and their names say nothing about which is which",
	"jobset/field-refs": "its template counts the pods of one Job of several, and a gang counts them through",
}

// departures are the differences on purpose, each with its reason. One that no recording
// needs fails the test.
var departures = []departure{
	// PyTorch.
	{"pytorchjob/", "", "PET_NPROC_PER_NODE", counted, "torchrun takes auto for the host's cores where it sees no GPU, whatever the pod's limit is; Rollcall counts the limits"},
	{"pytorchjob/elastic-all", "", "PET_STANDALONE", is("1"), "torchrun reads a number, and ends with an error at the operator's empty text"},
	{"pytorchjob/elastic-master", "", "RANK", gone, "torchrun hands out the ranks of an elastic gang"},
	{"pytorchjob/elastic-master", "", "WORLD_SIZE", gone, "the size of an elastic gang is what torchrun says at the moment"},
	{"pytorchjob/elastic-master", "", "MASTER_ADDR", gone, "torchrun tells its processes"},
	{"pytorchjob/elastic-master", "", "MASTER_PORT", gone, "torchrun tells its processes"},
	{"pytorchjob/elastic-master", "", "PET_MASTER_ADDR", gone, "read for static rendezvous alone"},
	{"pytorchjob/elastic-master", "", "PET_MASTER_PORT", gone, "read for static rendezvous alone"},
	{"pytorchjob/elastic-master", "", "PET_NODE_RANK", gone, "read for static rendezvous alone"},
	{"pytorchjob/elastic-master", "", "PET_NNODES", is("2:3"), "the Master is a node too, which the operator did not count"},
	{"pytorchjob/elastic-master", "", "PET_RDZV_ENDPOINT", ends("demo-master-0.demo.research.svc.cluster.local:29400"), "rank 0 keeps the rendezvous; a worker may leave"},
	// TensorFlow.
	{"tfjob/chief-worker-evaluator", "", "TF_CONFIG", without(`"evaluator":[`), "TensorFlow's own pages say that the evaluator is a task and no part of the cluster"},
	{"tfjob/dynamic-worker", "", "TF_CONFIG", nil, "a sparse cluster is no more: each task is told of all others, and the report says so"},
	{"tfjob/own-port", "", "TF_CONFIG", nil, "a gang has one port; the report says so"},
	// XGBoost.
	{"xgboostjob/own-port", "", "WORKER_PORT", is("9991"), "a gang has one port; the report says so"},
	// Paddle.
	{"paddlejob/", "", "POD_IP_DUMMY", gone, "it served PADDLE_MASTER alone"},
	{"paddlejob/ps", "", "PADDLE_MASTER", gone, "parameter servers are named to each other by endpoints"},
	{"paddlejob/ps", "", "PADDLE_NNODES", gone, "it makes Paddle's launcher look for a master"},
	{"paddlejob/ps", "", "PADDLE_SERVER_NUM", gone, "Paddle starts as many servers in each pod, workers' pods too"},
	{"paddlejob/ps", "", "PADDLE_TRAINER_NUM", gone, "Paddle starts as many trainers in each pod, servers' pods too"},
	{"paddlejob/", "worker", "PADDLE_MASTER", containing(".demo.research.svc.cluster.local:"), "rank 0 has its own name, which is an address too, and the same for all"},
	// MPI by kubectl exec.
	{"mpijob-v1/", "launcher", "OMPI_MCA_plm_rsh_agent", gone, "ssh, which is Open MPI's default, in the place of kubectl exec"},
	{"mpijob-v1/", "launcher", "I_MPI_HYDRA_BOOTSTRAP", is("ssh"), "ssh in the place of kubectl exec"},
	{"mpijob-v1/", "launcher", "I_MPI_HYDRA_BOOTSTRAP_EXEC", gone, "ssh in the place of kubectl exec"},
	// TrainJob.
	{"trainjob/", "node", "PET_NPROC_PER_NODE", counted, "torchrun takes auto for the GPUs that it sees; Rollcall counts the pod's limit, which is the same number, and sees accelerators of other vendors"},
	{"trainjob/jax-own-env", "node", "JAX_NUM_PROCESSES", is("2"), "the user's number was no number of this gang, and JAX would wait for ever; the report says so"},
	{"trainjob/xgboost-gpu", "node", "DMLC_NUM_WORKER", is("2"), "the task ids count pods, so the workers are pods; the report says so"},
	{"trainjob/torch-cache", "node", "TRAIN_JOB_NAME", is("demo"), "the label of JobSet is gone, and its value is known"},
	{"trainjob/", "launcher", "OMPI_MCA_orte_default_hostfile", is("/etc/mpi/hostfile.slots"), "one file for each form; /etc/mpi/hostfile is there too"},
	// MPI.
	{"mpijob-", "launcher", "OMPI_MCA_orte_default_hostfile", is("/etc/mpi/hostfile.slots"), "one file for each form; /etc/mpi/hostfile is there too, in the form of the implementation that was named"},
	{"mpijob-", "launcher", "I_MPI_HYDRA_HOST_FILE", is("/etc/mpi/hostfile.hydra"), "one file for each form"},
	{"mpijob-", "launcher", "HYDRA_HOST_FILE", is("/etc/mpi/hostfile.hydra"), "one file for each form"},
	{"mpijob-v2beta1/mpich", "launcher", "HYDRA_LAUNCH_EXTRA_ARGS", gone, "misspelt: no MPICH reads it; HYDRA_LAUNCHER_EXTRA_ARGS is set"},
}

// without wants a value that lacks a text.
func without(text string) func(string, string, bool) bool {
	return func(former, got string, set bool) bool {
		return set && strings.Contains(former, text) && !strings.Contains(got, text)
	}
}
