package trainer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/detection"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/jobset"
	"rollcall.training/internal/migrate/source"
)

// The policies of Trainer that need a conversion of their own.
const (
	policyTorch   = "torch"
	policyMPI     = "mpi"
	policyXGBoost = "xgboost"
	policyFlux    = "flux"
)

// policyFrameworks are the frameworks of Rollcall by the policies of Trainer.
var policyFrameworks = map[string]string{
	policyTorch: "pytorch", policyMPI: "mpi", "jax": "jax", policyXGBoost: "xgboost",
}

// convertMLPolicy sets the framework of the gang, its roles and their numbers of pods.
func (r *reader) convertMLPolicy() {
	j := r.trainerJob()
	if j == nil {
		return
	}
	policy := r.runtime.At("spec", "mlPolicy")
	var named []string
	for _, policyKind := range []string{policyTorch, policyMPI, "jax", policyXGBoost, policyFlux} {
		if policy.Get(policyKind).Exists() {
			named = append(named, policyKind)
		}
	}
	if len(named) > 1 {
		policy.MarkInvalid("must have only one of " + strings.Join(named, " and "))
		return
	}
	nodes := r.resolveNumNodes(policy)
	if nodes < 1 {
		return
	}
	switch {
	case len(named) == 0:
		r.convertWithoutPolicy(j, nodes)
	case named[0] == policyFlux:
		policy.Get(policyFlux).MarkHandled()
		policy.Get(policyFlux).MarkInvalid("Rollcall does not start Flux instances; " +
			"if the program needs only its processes started, use policy mpi")
	case named[0] == policyMPI:
		r.convertMPI(policy.Get(policyMPI), nodes)
	default:
		field, known := policy.Get(named[0]), []string{}
		if named[0] == policyTorch {
			known = []string{"numProcPerNode", "elasticPolicy", "envInjection"}
		}
		field.ReportUnreadExcept(known...)
		j.Role = "worker"
		r.setPodCount(j, nodes)
		r.Framework = policyFrameworks[named[0]]
		if named[0] == policyTorch {
			r.convertTorch(j)
		} else {
			r.spec.At("trainer", "numProcPerNode").MarkLeftOut("Trainer does not use it with policy " + named[0])
		}
		field.MarkPreserved("label " + gang.LabelFramework + ": " + r.Framework)
	}
}

// overridden returns the field of the TrainJob if it has a value, and otherwise that of the runtime.
func overridden(own, runtime source.Field) source.Field {
	if own.Exists() {
		runtime.MarkHandled()
		return own
	}
	return runtime
}

// resolveNumNodes returns the number of nodes, or 0 if it is invalid.
func (r *reader) resolveNumNodes(policy source.Field) int32 {
	field := overridden(r.spec.At("trainer", "numNodes"), policy.Get("numNodes"))
	nodes := ptr.Deref(field.Int32(), 1)
	if !field.Exists() && !policy.Exists() {
		nodes = r.trainerJob().PodsPerJob // without a policy, the runtime has the number
	}
	if nodes < 1 {
		field.MarkInvalid("must be at least 1")
		return 0
	}
	field.MarkPreserved("the number of pods of the workload")
	return nodes
}

// setPodCount sets the number of pods of a job.
func (r *reader) setPodCount(j *jobset.ReplicatedJob, pods int32) {
	spec := &j.Template.Spec
	for name, before := range map[string]*int32{"parallelism": spec.Parallelism, "completions": spec.Completions} {
		if before != nil && *before != pods {
			j.Source.At("template", "spec", name).MarkLeftOut("numNodes overrides it")
		}
	}
	j.PodsPerJob = pods
	spec.Parallelism, spec.Completions = ptr.To(pods), ptr.To(pods)
}

// convertWithoutPolicy makes a gang of the framework that the user named, or else a generic gang, because
// the variables of a framework could affect the program.
func (r *reader) convertWithoutPolicy(j *jobset.ReplicatedJob, nodes int32) {
	r.setPodCount(j, nodes)
	r.spec.At("trainer", "numProcPerNode").MarkLeftOut("Trainer does not use it without a policy")
	j.Role = "worker"
	if r.Framework = r.Context.Framework; r.Framework != "" {
		return
	}
	r.Framework = r.Context.Frameworks.Fallback().Name
	r.spec.Get("runtimeRef").AddNoteWithOutcome(source.Changed, "label "+gang.LabelFramework+": "+r.Framework,
		"mlPolicy of the runtime does not name a framework; every pod gets its rank and the addresses of all ranks, "+
			"and all ranks restart together",
		"for the variables of a framework, name it with --framework")
}

// convertTorch converts the number of processes of each pod.
func (r *reader) convertTorch(j *jobset.ReplicatedJob) {
	torch := r.runtime.At("spec", "mlPolicy", "torch")
	field := overridden(r.spec.At("trainer", "numProcPerNode"), torch.Get("numProcPerNode")) // the latter until 2.1
	switch value := field.IntOrString(); value {
	case "", "auto":
		r.resolveAutoProcesses(j)
		field.MarkPreserved("auto is the default")
	case "cpu":
		count := int64(1)
		if c := findContainer(j, j.TrainingContainer); c != nil {
			count = r.countCPUs(c)
		}
		field.MarkPreserved(r.setRequestedCPUs(count))
	default:
		r.SetAnnotation(gang.AnnotationNprocPerNode, value)
		field.MarkPreserved("annotation " + gang.AnnotationNprocPerNode)
	}
	torch.Get("elasticPolicy").MarkChanged("", "left out: no release of Trainer uses it",
		"if the size of the gang may change, set "+gang.AnnotationElastic+" on the new workload")
	torch.Get("envInjection").MarkDropped("only the training container and init containers get the variables",
		"name the containers in "+gang.AnnotationContainers)
	if command := r.spec.At("trainer", "command"); slices.Equal(command.Strings(), []string{"tune", "run"}) {
		command.MarkDropped("Trainer completed the command tune run with a recipe, a configuration and the rendezvous",
			"set the complete command, which the pods of the TrainJob show")
	}
}

// resolveAutoProcesses sets the number of processes if Trainer and Rollcall count differently.
func (r *reader) resolveAutoProcesses(j *jobset.ReplicatedJob) {
	c := findContainer(j, j.TrainingContainer)
	if c == nil || gang.CountAccelerators(r.nodeResources(c)) > 0 || gang.CountAccelerators(c.Resources) > 0 {
		return
	}
	if count := r.countCPUs(c); count != max(1, c.Resources.Limits.Cpu().Value()) {
		r.spec.AddNoteWithOutcome(source.Preserved, r.setRequestedCPUs(count), "", "")
	}
}

// setRequestedCPUs sets the number of processes to that of countCPUs. It returns the text for the report.
func (r *reader) setRequestedCPUs(count int64) string {
	r.SetAnnotation(gang.AnnotationNprocPerNode, strconv.FormatInt(count, 10))
	return fmt.Sprintf("annotation %s: %d, the requested CPUs, as in Trainer", gang.AnnotationNprocPerNode, count)
}

// countCPUs returns the number of processes of a pod without GPUs, as Trainer counts: the requested CPUs,
// otherwise their limit, and at least 1 (pkg/runtime/framework/plugins/torch/torch.go, getNumCPUPerNode).
func (r *reader) countCPUs(c *corev1.Container) int64 {
	resources := r.nodeResources(c)
	return max(1, cmp.Or(resources.Requests.Cpu().Value(), resources.Limits.Cpu().Value()))
}

// nodeResources returns the resources that Trainer counts: those of the TrainJob if it has any, and
// otherwise those of the runtime.
func (r *reader) nodeResources(c *corev1.Container) corev1.ResourceRequirements {
	var own corev1.ResourceRequirements
	if field := r.spec.At("trainer", "resourcesPerNode"); field.Exists() && field.Decode(&own) {
		return own
	}
	return c.Resources
}

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
		candidates[1], _ = detection.FindFramework(r.Context.Frameworks, pod)
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
	field.MarkPreserved("annotation " + gang.AnnotationSlotsPerWorker)
	if !own.Exists() && slots == 1 {
		j := launcher
		if worker != nil {
			j = worker
		}
		c := cmp.Or(findContainer(j, containerNode), &corev1.Container{})
		if gpus := gang.CountAccelerators(r.nodeResources(c)); gpus > 1 {
			slots = int32(min(gpus, 1<<20)) // bounded by min
			r.spec.AddNoteWithOutcome(source.Preserved,
				fmt.Sprintf("annotation %s: %d, the GPUs of a node, as in Trainer", gang.AnnotationSlotsPerWorker, gpus), "", "")
		}
	}
	r.SetAnnotation(gang.AnnotationSlotsPerWorker, strconv.Itoa(int(slots)))
}
