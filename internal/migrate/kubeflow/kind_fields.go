package kubeflow

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
	"rollcall.training/internal/detection"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// readPyTorch reads the fields of a PyTorchJob.
func readPyTorch(r *reader) {
	r.gang.Homogeneous, r.gang.CompletionRole = true, roleMaster
	elastic := r.spec.Get("elasticPolicy")
	for _, f := range []source.Field{elastic.Get("nProcPerNode"), r.spec.Get("nprocPerNode")} { // the first has precedence
		if n := f.IntOrString(); n != "" {
			r.gang.SetAnnotation(gang.AnnotationNprocPerNode, cmp.Or(r.gang.RollcallAnnotations[gang.AnnotationNprocPerNode], n))
			f.MarkPreserved("annotation " + gang.AnnotationNprocPerNode)
		}
	}
	r.convertElasticPolicy(elastic)
}

const roleChief = "chief"

// assignTFRoles renames a chief without workers to worker. In a gang, parameter servers and
// evaluators require workers, and worker 0 is the chief if there is no other.
func assignTFRoles(r *reader) {
	chief, master := r.gang.FindRole(roleChief), r.gang.FindRole(roleMaster)
	switch {
	case chief != nil && master != nil:
		r.replicaSpecs.MarkInvalid("a TFJob has a Chief or a Master, not both; remove one of them")
	case chief == nil && master == nil && r.gang.FindRole(roleWorker) == nil:
		r.replicaSpecs.MarkRequired("a Worker, Chief or Master determines when the job is complete; add one of them")
	}
	if r.gang.FindRole(roleWorker) != nil || len(r.gang.Roles) == 1 {
		return
	}
	for _, name := range []string{roleChief, roleMaster} {
		if role := r.gang.FindRole(name); role != nil {
			role.Name = roleWorker
			role.Source.AddNote("without workers, the "+name+" is worker 0 in TF_CONFIG, which has the work of a chief", "")
			return
		}
	}
}

// readTensorFlow reads the fields of a TFJob.
func readTensorFlow(r *reader) {
	r.convertSuccessPolicy(r.spec.Get("successPolicy"))
	if dynamic := r.spec.Get("enableDynamicWorker"); ptr.Deref(dynamic.Bool(), false) {
		dynamic.MarkDropped("TF_CONFIG lists all workers, and they restart together",
			"set "+gang.AnnotationRestartPolicy+": pod to restart only the failed worker")
	} else {
		dynamic.MarkPreserved("the default")
	}
}

// convertSuccessPolicy converts the condition for success: the chief or the master, or without them
// worker 0 or all workers.
func (r *reader) convertSuccessPolicy(f source.Field) {
	const allWorkers = "AllWorkers"
	policy, worker := f.String(), r.gang.FindRole(roleWorker)
	switch {
	case policy == allWorkers && (r.gang.FindRole(roleChief) != nil || r.gang.FindRole(roleMaster) != nil):
		f.MarkLeftOut("the job completes when the chief completes, as in the operator")
	case r.gang.FindRole(roleChief) != nil || r.gang.FindRole(roleMaster) != nil:
		f.MarkPreserved("the chief determines completion, as before")
	case worker == nil || worker.Pods == 1:
		f.MarkPreserved("one pod determines completion")
	default:
		value := gang.SuccessPolicyRank0 // worker 0 is rank 0 without a chief
		if policy == allWorkers {
			value = gang.SuccessPolicyAll
		}
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, value)
		f.MarkPreserved("annotation " + gang.AnnotationSuccessPolicy + ": " + value)
	}
}

// assignPaddleRoles renames a Master without workers to worker. A Master with workers runs the
// parameter servers.
func assignPaddleRoles(r *reader) {
	r.spec.Get("elasticPolicy").MarkLeftOut("no release of the operator used it for a PaddleJob")
	master, worker := r.gang.FindRole(roleMaster), r.gang.FindRole(roleWorker)
	switch {
	case master != nil && worker != nil:
		master.Source.AddNote("the Master runs only the parameter servers, and the gang completes when the workers "+
			"complete; the operator started a server and a trainer in each pod, and the Master determined completion", "")
	case master != nil:
		master.Name, master.StatefulSet = roleWorker, false
		master.Source.AddNote("without Workers, the pods of the Master are the workers", "")
	}
}

// readMPI reads the fields of an MPIJob.
func readMPI(r *reader) {
	r.gang.CompletionRole = gang.RoleLauncher
	launcher, worker := r.gang.FindRole(gang.RoleLauncher), r.gang.FindRole(roleWorker)
	if launcher == nil {
		r.replicaSpecs.MarkRequired("an MPIJob needs a Launcher, which starts all processes; add one")
		return
	}
	r.launcherIsJob = r.Version == v2beta1
	r.setSourceNames(launcher, worker)
	detected, _ := detection.FindFramework(r.Context.Frameworks, &launcher.Template.Spec)
	if detected.HasLauncher && detected.DefaultRole == r.framework.DefaultRole {
		r.framework, r.gang.Framework = detected, detected.Name
	}
	words := ir.CommandWords(&launcher.Template.Spec.Containers[0])
	if len(command.ScanFlags(words, "host-discovery-script")) > 0 {
		r.replicaSpecs.AddNote(
			"horovodrun discovers its hosts at run time, but a gang of fixed size restarts when a host fails",
			"set "+gang.AnnotationElastic+": min:max, the numbers of workers with which the run can continue")
	}
	r.convertSlotsPerWorker()
	r.gang.ConvertMPIImplementation(r.spec.Get("mpiImplementation"))
	r.convertRunLauncherAsWorker(launcher, worker)
	r.spec.Get("mainContainer").MarkDropped("the first container of a worker is the training container",
		"name another container in "+gang.AnnotationContainers)
	r.spec.Get("launcherCreationPolicy").MarkPreserved("the launcher always waits until all workers answer")
	r.convertLauncherTransport(worker)
}

// setSourceNames sets the former names of the pods. Since v2beta1 they are hosts in the subdomain of
// the job. In v1 they are names for kubectl exec. The launcher had no index.
func (r *reader) setSourceNames(launcher, worker *ir.Role) {
	launcher.SourceNames = ir.SourceNames{Prefix: r.gang.Name + "-launcher", SinglePod: true, Role: gang.RoleLauncher}
	if worker != nil {
		worker.SourceNames.PerPodService = false
	}
	if r.Version == v1 {
		return
	}
	for i := range r.gang.Roles { // the same changes as in the operator
		spec, f := &r.gang.Roles[i].Template.Spec, r.gang.Roles[i].Source.Get("spec")
		if spec.HostNetwork {
			spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		}
		spec.Hostname, spec.Subdomain = "", ""
		for _, key := range []string{"hostname", "subdomain"} {
			f.Get(key).MarkLeftOut("the operator overwrote it")
		}
	}
}

// convertSlotsPerWorker converts the number of processes on each host. The annotation is set even for
// the default, because Rollcall's default depends on nproc-per-node.
func (r *reader) convertSlotsPerWorker() {
	f := r.spec.Get("slotsPerWorker")
	r.gang.SetAnnotation(gang.AnnotationSlotsPerWorker, fmt.Sprint(ptr.Deref(f.Int32(), 1)))
	f.MarkPreserved("annotation " + gang.AnnotationSlotsPerWorker)
}

// convertRunLauncherAsWorker converts whether processes run in the pod of the launcher too. In v1 they
// did if the launcher had a GPU (training-operator, newConfigMap and isGPULauncher).
func (r *reader) convertRunLauncherAsWorker(launcher, worker *ir.Role) {
	const to = "annotation " + gang.AnnotationRunLauncherAsWorker
	f := r.spec.Get("runLauncherAsWorker")
	runs := ptr.Deref(f.Bool(), false)
	hasAccelerator := func(c corev1.Container) bool { return gang.CountAccelerators(c.Resources) > 0 }
	if r.Version == v1 && worker != nil && slices.ContainsFunc(launcher.Template.Spec.Containers, hasAccelerator) {
		runs = true
		launcher.Source.At("spec", "containers").Item(0).Get("resources").MarkPreserved(
			to + " too: a launcher with a GPU was one of the hosts")
	}
	switch {
	case worker == nil:
		f.MarkPreserved("without workers, the launcher runs all processes")
	case runs:
		r.gang.SetAnnotation(gang.AnnotationRunLauncherAsWorker, "true")
		f.MarkPreserved(to)
	default:
		f.MarkPreserved(to + ", which is false by default")
	}
}

// convertLauncherTransport converts how the launcher starts the processes of the workers. Before v2beta1 it did so by
// kubectl exec, so the images need no ssh, and the agent replaces it at the same path.
func (r *reader) convertLauncherTransport(worker *ir.Role) {
	r.spec.Get("sshAuthMountPath").MarkChanged("",
		"left out: Rollcall creates the keys, and ssh finds them with /etc/ssh/ssh_config for every user",
		"remove options that name a key file from your commands")
	if worker == nil {
		return
	}
	launch := gang.LaunchSSH
	if r.Version == v1 {
		launch = gang.LaunchAgent
		r.gang.SetAnnotation(gang.AnnotationLaunch, string(launch))
		r.replicaSpecs.AddNote("the agent of Rollcall replaces kubectl exec, and the images need no ssh", "")
	}
	ir.ConvertWorkerCommand(&worker.Template.Spec, r.gang.TrainingContainer(r.Context, worker), worker.Source, launch)
}

// convertElasticPolicy converts the policy of a PyTorchJob whose number of workers can change
// (training-operator, pkg/controller.v1/pytorch/elastic.go and hpa.go).
func (r *reader) convertElasticPolicy(policy source.Field) {
	if !policy.Exists() {
		return
	}
	worker := r.gang.FindRole(roleWorker)
	if worker == nil {
		policy.MarkInvalid("elasticPolicy applies to workers, and there are none; add a Worker, or remove elasticPolicy")
		return
	}
	if flag := r.findFixedSizeFlag(worker); flag != "" {
		for _, name := range []string{"minReplicas", "maxReplicas", "metrics"} {
			policy.Get(name).MarkLeftOut("the command sets " + flag + ", so the number of workers could not change")
		}
		r.convertRendezvous(policy)
		return
	}
	r.elastic = true
	r.gang.Homogeneous = false // a master is not one of the workers that can be removed
	r.convertElasticBounds(policy, worker)
	r.convertRendezvous(policy)
	policy.Get("metrics").MarkDropped("a HorizontalPodAutoscaler can scale a StatefulSet, but not a Job",
		"let the workers be a StatefulSet, and create a HorizontalPodAutoscaler for it with these metrics")
}

// findFixedSizeFlag returns the flag of torchrun or accelerate that fixes the number of nodes, or "". It takes
// precedence over the variable PET_NNODES of the operator.
func (r *reader) findFixedSizeFlag(worker *ir.Role) string {
	c := &worker.Template.Spec.Containers[findContainer(&worker.Template.Spec, r.containerName)]
	for _, flag := range command.ScanFlags(ir.CommandWords(c), "nnodes num-machines") {
		if _, err := strconv.Atoi(flag.Value); err == nil { // not a range, as in 1:3
			return flag.Name + "=" + flag.Value
		}
	}
	return ""
}

// convertElasticBounds converts the minimum and maximum number of workers. A missing bound is equal to
// the other one. Both default to the number of workers (pytorch_defaults.go, setElasticPolicy).
func (r *reader) convertElasticBounds(policy source.Field, worker *ir.Role) {
	const to = "annotation " + gang.AnnotationElastic
	minField, maxField := policy.Get("minReplicas"), policy.Get("maxReplicas")
	low, high := minField.Int32(), maxField.Int32()
	bounds := gang.ElasticBounds{
		Min: ptr.Deref(cmp.Or(low, high), worker.Pods),
		Max: ptr.Deref(cmp.Or(high, low), worker.Pods),
	}
	r.gang.SetAnnotation(gang.AnnotationElastic, bounds.String())
	minField.MarkPreserved(to)
	maxField.MarkPreserved(to)
	if r.gang.FindRole(roleMaster) != nil {
		policy.AddNote("the bounds count only workers; the operator configured torchrun with the same bounds for "+
			"workers and master together", "")
	} else {
		policy.AddNote("the operator completed the job when one worker succeeded; now all workers must succeed",
			"set "+gang.AnnotationSuccessPolicy+": rank0 to complete when the first worker succeeds")
	}
}

// convertRendezvous converts the parameters of torchrun. Parameters that differ from Rollcall's become
// variables of the user, which Rollcall does not change.
func (r *reader) convertRendezvous(policy source.Field) {
	backend, host, port := policy.Get("rdzvBackend"), policy.Get("rdzvHost"), policy.Get("rdzvPort")
	if name := backend.String(); name != "" && name != "c10d" {
		r.convertToEnv(backend, "PET_RDZV_BACKEND", name)
	} else if r.elastic {
		backend.MarkPreserved("PET_RDZV_BACKEND, which is c10d by default")
	} else {
		backend.MarkChanged("PET_MASTER_ADDR", "the ranks of a gang of fixed size connect to rank 0", "")
	}
	first, _, _ := strings.Cut(host.String(), ".")
	if first == "" || first == r.gang.Name+"-worker-0" || first == r.gang.Name+"-master-0" {
		host.MarkPreserved("PET_RDZV_ENDPOINT, which names rank 0 by default")
		if number := port.Int32(); number != nil {
			// It takes precedence over the port of a container, as in the operator.
			r.gang.SetAnnotation(gang.AnnotationPort, strconv.Itoa(int(*number)))
			port.MarkPreserved("PET_RDZV_ENDPOINT, with the annotation " + gang.AnnotationPort)
		}
	} else {
		number := cmp.Or(port.IntOrString(), r.gang.RollcallAnnotations[gang.AnnotationPort], fmt.Sprint(r.framework.Port))
		r.convertToEnv(host, "PET_RDZV_ENDPOINT", host.String()+":"+number)
		port.MarkPreserved("variable PET_RDZV_ENDPOINT")
	}
	if id := policy.Get("rdzvId"); id.String() != "" {
		r.convertToEnv(id, "PET_RDZV_ID", id.String())
	}
	usesRank0 := backend.String() == "" || backend.String() == "c10d"
	if restarts := policy.Get("maxRestarts"); !r.elastic && usesRank0 {
		restarts.MarkLeftOut("torchrun exits if a process fails, and Rollcall restarts all ranks together")
	} else if restarts.Int32() != nil {
		r.convertToEnv(restarts, "PET_MAX_RESTARTS", restarts.IntOrString())
	} else if r.elastic {
		policy.AddNote("maxRestarts is not set: torchrun exited when a process failed; now it restarts its processes, "+
			"up to the number in PET_MAX_RESTARTS, which Rollcall sets",
			"set the variable PET_MAX_RESTARTS in the new template for a different number")
	}
	policy.Get("rdzvConf").MarkDropped("torchrun uses its defaults", "set the variable PET_RDZV_CONF in the new template")
	policy.Get("standalone").MarkLeftOut("torchrun rejects the empty variable that the operator set for it")
}

// convertToEnv converts a field to a variable of the training container of each pod, as the operator does.
func (r *reader) convertToEnv(f source.Field, name, value string) {
	for i := range r.gang.Roles {
		role := &r.gang.Roles[i]
		c := &role.Template.Spec.Containers[findContainer(&role.Template.Spec, r.containerName)]
		ir.RemoveOverwrittenVars(c, []string{name}, role.FindEnvField)
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
	f.MarkPreserved("variable " + name)
}
