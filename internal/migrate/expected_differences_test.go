package migrate_test

import "strings"

// expectedDifference is a variable whose value differs intentionally from that of the original
// operator.
type expectedDifference struct {
	// casePrefix is the prefix of the names of the recordings, such as "tfjob/".
	casePrefix string
	// role is the operator's name of the role, or empty for all roles.
	role     string
	variable string
	// want compares the former and the new value; nil accepts every value, and none.
	want   func(former, got string, set bool) bool
	reason string
}

func findExpectedDifference(name, role, variable string) *expectedDifference {
	for i := range expectedDifferences {
		d := &expectedDifferences[i]
		if strings.HasPrefix(name, d.casePrefix) && (d.role == "" || d.role == role) && d.variable == variable {
			return d
		}
	}
	return nil
}

// wantValue accepts one value.
func wantValue(value string) func(string, string, bool) bool {
	return func(_, got string, set bool) bool { return set && got == value }
}

// wantSuffix accepts values with a suffix.
func wantSuffix(end string) func(string, string, bool) bool {
	return func(_, got string, set bool) bool { return set && strings.HasSuffix(got, end) }
}

// wantContaining accepts values that contain a text.
func wantContaining(text string) func(string, string, bool) bool {
	return func(_, got string, set bool) bool { return set && strings.Contains(got, text) }
}

// wantUnset accepts only an absent variable.
func wantUnset(_, _ string, set bool) bool { return !set }

// wantCount accepts a number if the operator set auto.
func wantCount(former, got string, _ bool) bool {
	return former == "auto" && got != "" && strings.Trim(got, "0123456789") == ""
}

// auxiliaryRoles are the operators' names of roles that do not train, with their new objects.
var auxiliaryRoles = map[string]string{
	"dataset-initializer": "a Job of its own, without a label",
	"model-initializer":   "a Job of its own, without a label",
	"driver":              "a Job of its own, without a label",
	"data":                "a Job of its own, without a label",
}

// differentSizes are the recordings with a different number of pods than the gang, with the reason.
var differentSizes = map[string]string{
	"trainjob/mpi-both-nodes":    "the trainer multiplies the launcher, and each launcher would run the complete program",
	"trainjob/mpi-runtime-nodes": "the trainer multiplies the launcher, and each launcher would run the complete program",
	"trainjob/mpi-defaults":      "the trainer multiplies the launcher, and each launcher would run the complete program",
	"trainjob/plainml":           "no framework is named, so the pods are no gang's and get no variables",
}

// rejectedCases are the recordings of jobs that migrate rejects, with the reason.
var rejectedCases = map[string]string{
	"jobset/groups":     "two jobs train, and their names do not suggest roles",
	"jobset/field-refs": "its template reads the index within one of several Jobs, and a gang has one index",
}

// expectedDifferences are the intended differences. A difference that no recording has fails the test.
var expectedDifferences = []expectedDifference{
	{
		casePrefix: "mpijob-v2beta1/own-env", role: "worker", variable: "K_MPI_JOB_ROLE", want: wantValue("mine"),
		reason: "Rollcall keeps a value of the user that no rank depends on",
	},
	// PyTorch.
	{
		casePrefix: "pytorchjob/elastic-all", variable: "PET_RDZV_CONF", want: wantContaining("join_timeout"),
		reason: "migrate reports rdzvConf",
	},
	{
		casePrefix: "pytorchjob/", variable: "PET_NPROC_PER_NODE", want: wantCount,
		reason: "without GPUs, torchrun counts the cores of the host for auto; Rollcall counts the limits " +
			"of the pod",
	},
	{
		casePrefix: "pytorchjob/elastic-all", variable: "PET_STANDALONE", want: wantUnset,
		reason: "torchrun rejects the empty value of the operator",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "RANK", want: wantUnset,
		reason: "torchrun assigns the ranks of an elastic gang",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "WORLD_SIZE", want: wantUnset,
		reason: "torchrun sets the current size of an elastic gang",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "MASTER_ADDR", want: wantUnset,
		reason: "torchrun sets it for its processes",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "MASTER_PORT", want: wantUnset,
		reason: "torchrun sets it for its processes",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "PET_MASTER_ADDR", want: wantUnset,
		reason: "torchrun reads it only for a static rendezvous",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "PET_MASTER_PORT", want: wantUnset,
		reason: "torchrun reads it only for a static rendezvous",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "PET_NODE_RANK", want: wantUnset,
		reason: "torchrun reads it only for a static rendezvous",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "PET_NNODES", want: wantValue("2:3"),
		reason: "the Master is a node, and the operator did not count it",
	},
	{
		casePrefix: "pytorchjob/elastic-master", variable: "PET_RDZV_ENDPOINT",
		want:   wantSuffix("demo-master-0.demo.research.svc.cluster.local:29400"),
		reason: "rank 0 hosts the rendezvous, because workers can be removed",
	},
	// TensorFlow.
	{
		casePrefix: "tfjob/chief-worker-evaluator", variable: "TF_CONFIG", want: wantWithout(`"evaluator":[`),
		reason: "in TensorFlow's documentation, the evaluator is not in the cluster",
	},
	{
		casePrefix: "tfjob/dynamic-worker", variable: "TF_CONFIG",
		reason: "Rollcall does not support sparse clusters, which the report contains",
	},
	{
		casePrefix: "tfjob/own-port", variable: "TF_CONFIG",
		reason: "a gang has one port, which the report contains",
	},
	// XGBoost.
	{
		casePrefix: "xgboostjob/own-port", variable: "WORKER_PORT", want: wantValue("9991"),
		reason: "a gang has one port, which the report contains",
	},
	// Paddle.
	{
		casePrefix: "paddlejob/", variable: "POD_IP_DUMMY", want: wantUnset,
		reason: "only PADDLE_MASTER used it",
	},
	{
		casePrefix: "paddlejob/ps", variable: "PADDLE_MASTER", want: wantUnset,
		reason: "parameter servers use endpoints",
	},
	{
		casePrefix: "paddlejob/ps", variable: "PADDLE_NNODES", want: wantUnset,
		reason: "with it, Paddle's launcher looks for a master",
	},
	{
		casePrefix: "paddlejob/ps", variable: "PADDLE_SERVER_NUM", want: wantUnset,
		reason: "Paddle would start this number of servers in each pod",
	},
	{
		casePrefix: "paddlejob/ps", variable: "PADDLE_TRAINER_NUM", want: wantUnset,
		reason: "Paddle would start this number of trainers in each pod",
	},
	{
		casePrefix: "paddlejob/", role: "worker", variable: "PADDLE_MASTER",
		want:   wantContaining(".demo.research.svc.cluster.local:"),
		reason: "rank 0 gets its hostname like all other ranks",
	},
	// MPI by kubectl exec.
	{
		casePrefix: "mpijob-v1/defaults", role: "launcher", variable: "I_MPI_HYDRA_BOOTSTRAP", want: wantValue("rsh"),
		reason: "Hydra does not limit the connections of the agent",
	},
	// TrainJob.
	{
		casePrefix: "trainjob/", role: "node", variable: "PET_NPROC_PER_NODE", want: wantCount,
		reason: "torchrun counts visible GPUs for auto; Rollcall counts the accelerators of all vendors in " +
			"the limits, which is the same number",
	},
	{
		casePrefix: "trainjob/jax-own-env", role: "node", variable: "JAX_NUM_PROCESSES", want: wantValue("2"),
		reason: "with the user's number, JAX would wait indefinitely; the report contains the change",
	},
	{
		casePrefix: "trainjob/xgboost-gpu", role: "node", variable: "DMLC_NUM_WORKER", want: wantValue("2"),
		reason: "the task IDs count pods, so the workers are pods; the report contains the change",
	},
	{
		casePrefix: "trainjob/torch-cache", role: "node", variable: "TRAIN_JOB_NAME", want: wantValue("demo"),
		reason: "the value of the label is known, and no pod has the label",
	},
	{
		casePrefix: "trainjob/", role: "launcher", variable: "OMPI_MCA_orte_default_hostfile",
		want:   wantValue("/etc/mpi/hostfile.slots"),
		reason: "each format has a file; /etc/mpi/hostfile exists too",
	},
	// MPI.
	{
		casePrefix: "mpijob-", role: "launcher", variable: "OMPI_MCA_orte_default_hostfile",
		want:   wantValue("/etc/mpi/hostfile.slots"),
		reason: "each format has a file; /etc/mpi/hostfile has the format of the named implementation",
	},
	{
		casePrefix: "mpijob-", role: "launcher", variable: "I_MPI_HYDRA_HOST_FILE",
		want:   wantValue("/etc/mpi/hostfile.hydra"),
		reason: "each format has a file",
	},
	{
		casePrefix: "mpijob-", role: "launcher", variable: "HYDRA_HOST_FILE",
		want:   wantValue("/etc/mpi/hostfile.hydra"),
		reason: "each format has a file",
	},
	{
		casePrefix: "mpijob-v2beta1/mpich", role: "launcher", variable: "HYDRA_LAUNCH_EXTRA_ARGS", want: wantUnset,
		reason: "misspelled, so MPICH does not read it; HYDRA_LAUNCHER_EXTRA_ARGS is set",
	},
}

// wantWithout accepts values without a text that the former value contains.
func wantWithout(text string) func(string, string, bool) bool {
	return func(former, got string, set bool) bool {
		return set && strings.Contains(former, text) && !strings.Contains(got, text)
	}
}
