package trainer

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/jobset"
	"rollcall.training/internal/migrate/source"
)

// launcherOperatorVars are variables of the launcher that Trainer overwrites. A TrainJob must not
// contain them.
var launcherOperatorVars = []string{
	"OMPI_MCA_orte_default_hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames",
	"OMPI_MCA_orte_set_default_slots", "OMPI_MCA_plm_rsh_args",
}

// convertMPI makes a launcher and its workers (pkg/runtime/framework/plugins/mpi).
func (r *reader) convertMPI(policy source.Field, nodes int32) {
	launcher, worker := r.jobSet.FindJob(jobLauncher), r.jobSet.FindJob(jobNode)
	if launcher == nil {
		launcher, worker = r.trainerJob(), nil
	}
	r.Framework = r.detectLauncherFramework(launcher, worker != nil)
	policy.AddNoteWithOutcome(source.Preserved, "label "+gang.LabelFramework+": "+r.Framework, "", "")
	launcher.Role = gang.RoleLauncher
	runLauncherAsNode := policy.Get("runLauncherAsNode")
	isNode := ptr.Deref(runLauncherAsNode.Bool(), false)
	r.setPodCount(launcher, 1)
	switch {
	case worker != nil:
		worker.Role, worker.TrainingContainer = "worker", nodeContainerName(worker)
		r.sizeWorkers(worker, nodes, isNode)
	case nodes > 1:
		r.spec.At("trainer", "numNodes").MarkInvalid(
			"must be 1: the runtime does not have both jobs " + jobLauncher + " and " + jobNode)
	}
	if launcher.TrainingContainer == "" {
		launcher.TrainingContainer = nodeContainerName(launcher)
	}
	if c := findContainer(launcher, containerNode); c != nil {
		ir.RemoveOverwrittenVars(c, launcherOperatorVars, launcher.FindEnvField)
	}
	if worker != nil && isNode {
		r.SetAnnotation(gang.AnnotationRunLauncherAsWorker, "true")
		if slices.Index(r.jobSet.Jobs, worker) < slices.Index(r.jobSet.Jobs, launcher) {
			runLauncherAsNode.AddNoteWithOutcome(source.Changed, "rank 0 in the pod of the launcher",
				"the hostfile started with the first worker, which had rank 0; now it starts with the launcher",
				"look for the output of rank 0, such as logs and local files, in the pod of the launcher")
		}
	}
	runLauncherAsNode.MarkPreserved("annotation " + gang.AnnotationRunLauncherAsWorker)
	policy.Get("sshAuthMountPath").MarkLeftOut(
		"each rank has keys of the gang, and an SSH configuration that every user can read")
	r.ConvertMPIImplementation(policy.Get("mpiImplementation"))
	r.convertSlotsPerWorker(policy, launcher, worker)
}

// nodeContainerName returns the name of the trainer's container if the job has it, and otherwise "".
func nodeContainerName(j *jobset.ReplicatedJob) string {
	if findContainer(j, containerNode) != nil {
		return containerNode
	}
	return ""
}

// detectLauncherFramework detects the framework of a launcher from the label of the runtime or from
// the command. The policy also starts programs of other frameworks with a launcher.
func (r *reader) detectLauncherFramework(launcher *jobset.ReplicatedJob, hasWorkers bool) string {
	label := r.runtime.At("metadata", "labels").Get(labelFramework).String()
	candidates := make([]gang.Framework, 2)
	candidates[0], _ = r.Context.Frameworks.Find(label)
	if c := findContainer(launcher, containerNode); c != nil {
		pod := &corev1.PodSpec{Containers: []corev1.Container{*c}}
		candidates[1], _ = ir.DetectFramework(r.Context.Frameworks, pod)
	}
	for _, f := range candidates {
		if f.HasLauncher && f.Name != policyMPI && (hasWorkers || !f.LauncherNeedsWorkers()) {
			return f.Name
		}
	}
	return policyFrameworks[policyMPI]
}

// sizeWorkers sets the number of workers. If the launcher is a node, Trainer subtracts it from the
// number of nodes, but starts at least one worker.
func (r *reader) sizeWorkers(worker *jobset.ReplicatedJob, nodes int32, launcherIsNode bool) {
	if !r.spec.At("trainer", "numNodes").Exists() && nodes == 1 {
		r.setPodCount(worker, worker.PodsPerJob) // the number of workers of the runtime
		return
	}
	if launcherIsNode {
		nodes = max(nodes-1, 1)
	}
	r.setPodCount(worker, nodes)
}

// convertSlotsPerWorker converts the number of processes on each host. Trainer replaces 1 in the
// runtime by the number of GPUs.
func (r *reader) convertSlotsPerWorker(policy source.Field, launcher, worker *jobset.ReplicatedJob) {
	own := r.spec.At("trainer", "numProcPerNode")
	field := overridden(own, policy.Get("numProcPerNode"))
	slots := ptr.Deref(field.Int32(), 1)
	if slots < 1 {
		field.MarkInvalid("must be at least 1")
		return
	}
	field.MarkPreserved("annotation " + gang.AnnotationSlotsPerWorker)
	if !own.Exists() && slots == 1 {
		j := launcher
		if worker != nil {
			j = worker
		}
		c := findContainer(j, containerNode)
		if c == nil {
			c = &corev1.Container{}
		}
		if gpus := r.countGPUs(c); gpus > 1 {
			slots = int32(min(gpus, 1<<20)) // bounded by min
			r.nodeResourcesField(j).AddNoteWithOutcome(source.Preserved,
				fmt.Sprintf("annotation %s: %d, the GPUs of a node, as in Trainer", gang.AnnotationSlotsPerWorker, gpus), "", "")
		}
	}
	r.SetAnnotation(gang.AnnotationSlotsPerWorker, strconv.Itoa(int(slots)))
}
