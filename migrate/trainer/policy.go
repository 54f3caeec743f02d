package trainer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/jobset"
	"rollcall.training/migrate/ledger"
)

// policy gives the gang its framework, its parts and their sizes.
func (r *reader) policy() {
	j := r.training()
	if j == nil {
		return
	}
	n := r.runtime.At("spec", "mlPolicy")
	var named []string
	for _, source := range []string{"torch", "mpi", "jax", "xgboost", "flux"} {
		if n.Get(source).Exists() {
			named = append(named, source)
		}
	}
	if len(named) > 1 {
		n.Invalid("has " + strings.Join(named, " and ") + "; only one of them can be")
		return
	}
	nodes := r.numNodes(n)
	if nodes < 1 {
		return
	}
	switch {
	case len(named) == 0:
		r.plain(j, nodes)
	case named[0] == "flux":
		n.Get("flux").Ignore()
		n.Get("flux").Invalid("Flux is not supported: Rollcall starts no Flux instance; a program that needs no more than its processes started can run under policy mpi, and others stay where they are")
	case named[0] == "mpi":
		r.mpi(n.Get("mpi"), nodes)
	default:
		n.Get(named[0]).Only(map[string][]string{"torch": {"numProcPerNode", "elasticPolicy", "envInjection"}}[named[0]]...)
		r.ranks(named[0], j, nodes)
		n.Get(named[0]).Carried("label " + gang.LabelFramework + ": " + r.Framework)
	}
}

// numNodes is the number of nodes; 0, and a mistake, where it cannot be.
func (r *reader) numNodes(policy ledger.Node) int32 {
	own, runtimes := r.spec.At("trainer", "numNodes"), policy.Get("numNodes")
	at := own
	if !own.Exists() {
		at = runtimes
	}
	nodes := ptr.Deref(at.Int32(), 1)
	if !at.Exists() && !policy.Exists() {
		nodes = r.training().Pods // without a policy the runtime's own number counts
	}
	if nodes < 1 {
		at.Invalid("must be at least 1")
		return 0
	}
	own.Carried("the workload's number of pods")
	if own.Exists() {
		runtimes.Ignore() // overruled by the TrainJob
	}
	runtimes.Carried("the workload's number of pods")
	return nodes
}

// ranks makes a gang of one role.
func (r *reader) ranks(source string, j *jobset.Job, nodes int32) {
	r.Framework = map[string]string{"torch": "pytorch"}[source]
	if r.Framework == "" {
		r.Framework = source
	}
	j.Role = "worker"
	r.size(j, nodes)
	if source == "torch" {
		r.torch(j)
		return
	}
	r.spec.At("trainer", "numProcPerNode").Changed("", "left out: the trainer did not read it for "+source, "")
	if gpus := r.gpus(j); source == "xgboost" && gpus > 1 {
		r.gpuNode(j).Remark(ledger.Changed, "DMLC_NUM_WORKER",
			fmt.Sprintf("the trainer counted a worker for each of %d GPUs, %d in all; Rollcall counts the pods, %d", gpus, int64(gpus)*int64(nodes), nodes),
			"set the number in the program if it starts a process for each GPU")
	}
}

// size gives a job its number of pods.
func (r *reader) size(j *jobset.Job, pods int32) {
	if c := j.Template.Spec.Parallelism; c != nil && *c != pods {
		j.Node.At("template", "spec", "parallelism").Changed("", "left out: numNodes overruled it", "")
	}
	if c := j.Template.Spec.Completions; c != nil && *c != pods {
		j.Node.At("template", "spec", "completions").Changed("", "left out: numNodes overruled it", "")
	}
	j.Pods = pods
	j.Template.Spec.Parallelism, j.Template.Spec.Completions = ptr.To(pods), ptr.To(pods)
}

// plain makes a plain Job of the pods: no framework is named, and none shall set variables
// that nobody asked for.
func (r *reader) plain(j *jobset.Job, nodes int32) {
	r.size(j, nodes)
	r.spec.At("trainer", "numProcPerNode").Changed("", "left out: the trainer did not read it without a policy", "")
	if r.Around.Framework != "" {
		r.Framework, j.Role = r.Around.Framework, "worker"
		return
	}
	j.Alone = true
	r.spec.Get("runtimeRef").Remark(ledger.Changed, "a plain Indexed Job",
		"the runtime has no mlPolicy that names a framework, so the pods got no variables; the Job is none of Rollcall's either: no rendezvous, no /dev/shm, no restart of all ranks together, no phase",
		"name a framework with --framework to make it a gang")
}

// torch carries the processes in each pod.
func (r *reader) torch(j *jobset.Job) {
	own, runtimes := r.spec.At("trainer", "numProcPerNode"), r.runtime.At("spec", "mlPolicy", "torch", "numProcPerNode") // the latter until 2.1
	at := own
	if !own.Exists() {
		at = runtimes
	}
	switch v := at.IntOrString(); v {
	case "", "auto":
		r.auto(j)
	case "gpu", "cpu":
		r.Keys[gang.AnnotationNproc] = v
	default:
		if n, err := strconv.Atoi(v); err != nil || n < 1 {
			at.Invalid("must be auto, gpu, cpu or a number from 1 on")
			return
		}
		r.Keys[gang.AnnotationNproc] = v
	}
	if v := at.IntOrString(); v != "" && v != "auto" {
		at.Carried("annotation " + gang.AnnotationNproc)
	} else {
		at.Carried("auto is the default")
	}
	runtimes.Ignore() // overruled by the TrainJob, or said
	r.runtime.At("spec", "mlPolicy", "torch", "elasticPolicy").Changed("", "left out: no release of the trainer acted on it",
		"set "+gang.AnnotationElastic+" on the new workload for a gang whose size may change")
	r.runtime.At("spec", "mlPolicy", "torch", "envInjection").Only("targets")
	r.injection(j)
	r.tune(j)
}

// auto writes the number of processes down where the trainer would find another than
// Rollcall: it counts the CPUs that are requested before those that are the limit
// (pkg/runtime/framework/plugins/torch/torch.go).
func (r *reader) auto(j *jobset.Job) {
	c := container(j, j.Container)
	if c == nil || r.gpus(j) > 0 {
		return
	}
	res := r.perNode(c)
	cpu := func(list corev1.ResourceList) int64 { q := list[corev1.ResourceCPU]; return q.Value() }
	trainers := cpu(res.Requests)
	if trainers == 0 {
		trainers = cpu(res.Limits)
	}
	accelerators := slices.ContainsFunc(names(c.Resources.Limits), func(name string) bool {
		return strings.Contains(name, ".") && strings.Contains(name, "/")
	})
	if trainers = max(1, trainers); !accelerators && trainers != max(1, cpu(c.Resources.Limits)) {
		r.Keys[gang.AnnotationNproc] = strconv.FormatInt(trainers, 10)
		r.gpuNode(j).Remark(ledger.Carried, fmt.Sprintf("annotation %s: %d, the CPUs that are requested, as the trainer counted", gang.AnnotationNproc, trainers), "", "")
	}
}

func names(list corev1.ResourceList) []string {
	var out []string
	for name := range list {
		out = append(out, string(name))
	}
	return out
}

// perNode are the resources that the trainer counts: the TrainJob's alone where it has
// any, else the runtime's.
func (r *reader) perNode(c *corev1.Container) corev1.ResourceRequirements {
	var own corev1.ResourceRequirements
	if n := r.spec.At("trainer", "resourcesPerNode"); n.Exists() && n.Into(&own) {
		return own
	}
	return c.Resources
}

// gpuNode is where the resources stand in the manifest.
func (r *reader) gpuNode(j *jobset.Job) ledger.Node {
	if n := r.spec.At("trainer", "resourcesPerNode"); n.Exists() {
		return n
	}
	return j.Node.At("template", "spec", "template")
}

// gpus counts as the trainer does: the first resource that has gpu in its name, requests
// before limits (pkg/runtime/runtime.go, GetNumGPUPerNode).
func (r *reader) gpus(j *jobset.Job) int32 {
	c := container(j, containerNode)
	if c == nil {
		return 0
	}
	res := r.perNode(c)
	for _, list := range []corev1.ResourceList{res.Requests, res.Limits} {
		all := names(list)
		slices.Sort(all)
		for _, name := range all {
			if q := list[corev1.ResourceName(name)]; strings.Contains(strings.ToLower(name), "gpu") && q.Cmp(resource.MustParse("0")) > 0 {
				return int32(min(q.Value(), 1<<20)) //nolint:gosec // bounded right here
			}
		}
	}
	return 0
}

// injection carries which other containers get the variables (from 2.3 on). Init
// containers get them anyway.
func (r *reader) injection(j *jobset.Job) {
	trained := []string{}
	if j.Container != "" {
		trained = append(trained, j.Container)
	}
	for _, target := range r.runtime.At("spec", "mlPolicy", "torch", "envInjection", "targets").Items() {
		of := r.set.Job(target.Get("jobName").String())
		if of != j {
			target.Lost("what stands beside the gang gets no variables of it", "set them there by hand")
			continue
		}
		for _, name := range target.Get("containerNames").Strings() {
			if container(j, name) != nil {
				trained = append(trained, name)
			}
		}
		target.Only("jobName", "containerNames")
		target.Carried("annotation " + gang.AnnotationContainer + "; init containers get the variables anyway")
	}
	if len(trained) > 1 {
		r.Keys[gang.AnnotationContainer] = strings.Join(trained, ",")
	}
}

// port keeps the trainer's port, which is one for all frameworks: programs and network
// policies may name it.
func (r *reader) port() {
	switch r.Framework {
	case "", "mpi", "deepspeed", "horovod": // none of them meets there
	default:
		r.Keys[gang.AnnotationPort] = strconv.Itoa(trainerPort)
	}
}
