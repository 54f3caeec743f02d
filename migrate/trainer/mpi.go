package trainer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/jobset"
	"rollcall.training/migrate/ledger"
)

// implementations are the trainer's words for what Rollcall calls otherwise. It starts
// Open MPI alone, and its API has the others.
var implementations = map[string]gang.MPI{"": gang.OpenMPI, "OpenMPI": gang.OpenMPI, "Intel": gang.IntelMPI, "MPICH": gang.MPICH}

// overwritten are the variables of a launcher that the trainer sets in the place of the
// runtime's own; a TrainJob may not name them at all.
var overwritten = []string{
	"OMPI_MCA_orte_default_hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_set_default_slots", "OMPI_MCA_plm_rsh_args",
}

// mpi makes a launcher and its workers (pkg/runtime/framework/plugins/mpi).
func (r *reader) mpi(n ledger.Node, nodes int32) {
	launcher, worker := r.set.Job(jobLauncher), r.set.Job(jobNode)
	if launcher == nil {
		launcher, worker = r.training(), nil
	}
	r.Framework = r.launches(launcher, worker != nil)
	n.Remark(ledger.Carried, "label "+gang.LabelFramework+": "+r.Framework, "", "")
	launcher.Role = gang.RoleLauncher
	self := ptr.Deref(n.Get("runLauncherAsNode").Bool(), false)
	r.size(launcher, 1)
	switch {
	case worker != nil:
		worker.Role, worker.Container = "worker", containerOf(worker)
		r.workers(worker, nodes, self)
	case nodes > 1:
		r.spec.At("trainer", "numNodes").Invalid("must be 1: the runtime has no two jobs " + jobLauncher + " and " + jobNode + ", so there is nowhere else to run")
	}
	if launcher.Container == "" {
		launcher.Container = containerOf(launcher)
	}
	launcher.Overwritten(containerNode, overwritten...)
	if worker != nil && self {
		r.Keys[gang.AnnotationLauncherRuns] = "true"
		if slices.Index(r.set.Jobs, worker) < slices.Index(r.set.Jobs, launcher) {
			n.Get("runLauncherAsNode").Remark(ledger.Changed, "rank 0 in the launcher's pod",
				"the hostfile began with the workers, as the runtime does, and rank 0 ran in the first of them; it begins with the launcher now",
				"look for what rank 0 writes, such as logs and files on its own disk, in the launcher's pod")
		}
	}
	n.Get("runLauncherAsNode").Carried("annotation " + gang.AnnotationLauncherRuns)
	n.Get("sshAuthMountPath").Changed("", "left out: each rank has keys of the gang's own and a configuration of ssh that names them, for any user and wherever its home is", "")
	kind := n.Get("mpiImplementation")
	if v, ok := implementations[kind.String()]; !ok {
		kind.Invalid("must be OpenMPI, Intel or MPICH")
	} else {
		if v != gang.OpenMPI {
			r.Keys[gang.AnnotationMPI] = string(v)
		}
		kind.Carried("annotation " + gang.AnnotationMPI + ", whose default is " + string(gang.OpenMPI))
	}
	r.slots(n, launcher, worker)
}

// containerOf is the name of the trainer's container where a job has it.
func containerOf(j *jobset.Job) string {
	if container(j, containerNode) != nil {
		return containerNode
	}
	return ""
}

// launches tells which launcher it is: the runtime's label says it, or the command does.
// A launcher of DeepSpeed or Horovod is one of MPI that finds its hosts at more places;
// DeepSpeed's needs workers.
func (r *reader) launches(launcher *jobset.Job, workers bool) string {
	label := r.runtime.At("metadata", "labels").Get(labelFramework).String()
	command := ""
	if c := container(launcher, containerNode); c != nil {
		command = " " + strings.Join(append(append([]string{}, c.Command...), c.Args...), " ") + " "
	}
	switch {
	case workers && (label == "deepspeed" || strings.Contains(command, " deepspeed ") || strings.Contains(command, "/deepspeed ")):
		return "deepspeed"
	case label == "horovod" || strings.Contains(command, "horovodrun "):
		return "horovod"
	}
	return "mpi"
}

// workers gives the workers their number: a launcher that is a node itself is one of the
// nodes, but the trainer never starts fewer than one beside it.
func (r *reader) workers(worker *jobset.Job, nodes int32, self bool) {
	own := r.spec.At("trainer", "numNodes")
	policy := r.runtime.At("spec", "mlPolicy", "numNodes")
	if !own.Exists() && nodes > 1 {
		policy.Remark(ledger.Changed, "the workers' number of pods",
			"the trainer starts this many launchers where the TrainJob names no number, and no more workers; it is taken for the number of nodes", "")
	}
	if !own.Exists() && nodes == 1 {
		nodes = worker.Pods // the runtime's own number of workers
		if self {
			nodes++
		}
	}
	if !self {
		r.size(worker, nodes)
		return
	}
	if nodes == 1 && own.Exists() {
		own.Remark(ledger.Changed, "a launcher and 1 worker", "the trainer starts a worker beside a launcher that is a node itself, 2 pods in all, and so it is here", "")
	}
	r.size(worker, max(nodes-1, 1))
}

// slots carries the processes on each host. Where the runtime says 1, the trainer takes
// the number of GPUs.
func (r *reader) slots(n ledger.Node, launcher, worker *jobset.Job) {
	own, runtimes := r.spec.At("trainer", "numProcPerNode"), n.Get("numProcPerNode")
	at := own
	if !own.Exists() {
		at = runtimes
	}
	slots := ptr.Deref(at.Int32(), 1)
	if slots < 1 {
		at.Invalid("must be at least 1")
		return
	}
	at.Carried("annotation " + gang.AnnotationSlots)
	runtimes.Ignore() // overruled by the TrainJob, or said
	if !own.Exists() && slots == 1 {
		j := launcher
		if worker != nil {
			j = worker
		}
		if gpus := r.gpus(j); gpus > 1 {
			slots = gpus
			r.gpuNode(j).Remark(ledger.Carried, fmt.Sprintf("annotation %s: %d, the GPUs of a node, as the trainer counted", gang.AnnotationSlots, gpus), "", "")
		}
	}
	r.Keys[gang.AnnotationSlots] = strconv.Itoa(int(slots))
}
