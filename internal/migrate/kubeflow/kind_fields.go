package kubeflow

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// readPyTorch reads the fields of a PyTorchJob.
func readPyTorch(r *reader) {
	r.gang.Homogeneous, r.gang.CompletionRole = true, roleMaster
	processes, elastic := r.spec.Get("nprocPerNode"), r.spec.Get("elasticPolicy")
	if deprecated := elastic.Get("nProcPerNode"); deprecated.Exists() {
		processes.MarkLeftOut("elasticPolicy.nProcPerNode takes precedence, as in the operator")
		processes = deprecated
	}
	r.convertProcessesPerPod(processes)
	r.convertElasticPolicy(elastic)
}

func (r *reader) convertProcessesPerPod(f source.Field) {
	if processes := f.IntOrString(); processes != "" {
		r.gang.SetAnnotation(gang.AnnotationNprocPerNode, processes)
		f.MarkPreserved("annotation " + gang.AnnotationNprocPerNode)
	}
}

// readXGBoost reads an XGBoostJob, which has no fields of its own.
func readXGBoost(r *reader) {
	r.gang.Homogeneous, r.gang.CompletionRole = true, roleMaster
	if r.findRole(roleMaster) == nil {
		r.replicaSpecs.AddNote("the operator requires a Master, so this job did not run; rank 0 is the first worker now", "")
	}
}

const roleChief = "chief"

// assignTFRoles renames a chief without workers to worker. In a gang, parameter servers and
// evaluators require workers, and worker 0 is the chief if there is no other.
func assignTFRoles(r *reader) {
	chief, master := r.findRole(roleChief), r.findRole(roleMaster)
	switch {
	case chief != nil && master != nil:
		r.replicaSpecs.MarkInvalid("a TFJob has a Chief or a Master, not both; remove one of them")
	case chief == nil && master == nil && r.findRole(roleWorker) == nil:
		r.replicaSpecs.MarkRequired("a Worker, Chief or Master determines when the job is complete; add one of them")
	}
	if r.findRole(roleWorker) != nil || len(r.gang.Roles) == 1 {
		return
	}
	for _, name := range []string{roleChief, roleMaster} {
		if role := r.findRole(name); role != nil {
			role.Name = roleWorker
			role.Source.AddNote("without workers, the "+name+" is worker 0 in TF_CONFIG, which has the work of a chief", "")
			return
		}
	}
}

// readTensorFlow reads the fields of a TFJob.
func readTensorFlow(r *reader) {
	r.convertSuccessPolicy(r.spec.Get("successPolicy"))
	dynamic := r.spec.Get("enableDynamicWorker")
	if ptr.Deref(dynamic.Bool(), false) {
		dynamic.MarkDropped(
			"the operator listed only one worker and the servers in TF_CONFIG, and a failed worker did not fail the job; "+
				"a gang lists all workers, and they restart together",
			"set "+gang.AnnotationRestartPolicy+": pod to restart only the failed worker")
		return
	}
	dynamic.MarkPreserved("the default")
}

// convertSuccessPolicy converts the condition for success: the chief or the master, or without them
// worker 0 or all workers.
func (r *reader) convertSuccessPolicy(f source.Field) {
	const allWorkers = "AllWorkers"
	policy, worker := f.String(), r.findRole(roleWorker)
	switch {
	case policy == allWorkers && (r.findRole(roleChief) != nil || r.findRole(roleMaster) != nil):
		f.MarkLeftOut("the job completes when the chief completes, as in the operator")
	case r.findRole(roleChief) != nil || r.findRole(roleMaster) != nil:
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
	master, worker := r.findRole(roleMaster), r.findRole(roleWorker)
	switch {
	case master != nil && worker != nil:
		master.Source.AddNote("the Master runs only the parameter servers, and the gang completes when the workers "+
			"complete; the operator started a server and a trainer in each pod, and the Master determined completion", "")
	case master != nil:
		master.Name, master.StatefulSet = roleWorker, false
		master.Source.AddNote("without Workers, the pods of the Master are the workers", "")
	}
}

// readPaddle reads the fields of a PaddleJob.
func readPaddle(r *reader) {
	policy := r.spec.Get("elasticPolicy")
	for _, key := range []string{"minReplicas", "maxReplicas", "maxRestarts", "metrics"} {
		policy.Get(key).MarkLeftOut("no release of the operator used it for a PaddleJob")
	}
}

// readMPI reads the fields of an MPIJob.
func readMPI(r *reader) {
	r.gang.CompletionRole = gang.RoleLauncher
	launcher, worker := r.findRole(gang.RoleLauncher), r.findRole(roleWorker)
	if launcher == nil {
		r.replicaSpecs.MarkRequired("an MPIJob needs a Launcher, which starts all processes; add one")
		return
	}
	r.launcherIsJob = r.Version == v2beta1
	r.setSourceNames(launcher, worker)
	detected, _ := ir.DetectFramework(r.Context.Frameworks, &launcher.Template.Spec)
	if detected.HasLauncher && detected.DefaultRole == r.framework.DefaultRole {
		r.framework, r.gang.Framework = detected, detected.Name
	}
	if commandContains(launcher, "--host-discovery-script") {
		r.replicaSpecs.AddNote(
			"horovodrun discovers its hosts at run time, but a gang of fixed size restarts when a host fails",
			"set "+gang.AnnotationElastic+": min:max, the numbers of workers with which the run can continue")
	}
	r.convertSlotsPerWorker()
	r.gang.ConvertMPIImplementation(r.spec.Get("mpiImplementation"))
	r.convertRunLauncherAsWorker(launcher, worker)
	const waits = "the launcher always waits until all workers answer"
	if policy := r.spec.Get("launcherCreationPolicy"); policy.String() == "AtStartup" {
		policy.MarkLeftOut(waits)
	} else {
		policy.MarkPreserved(waits)
	}
	r.spec.Get("mainContainer").MarkDropped("the first container of a worker is the training container",
		"name another container in "+gang.AnnotationContainers)
	if worker != nil {
		ir.ConvertWorkerCommand(&worker.Template.Spec, r.gang.TrainingContainer(r.Context, worker), worker.Source)
	}
	r.convertLauncherTransport(launcher, worker)
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

// commandContains reports whether the command of the first container contains a word.
func commandContains(role *ir.Role, word string) bool {
	found := false
	ir.VisitTexts(&role.Template.Spec.Containers[0], func(text *string) { found = found || strings.Contains(*text, word) })
	return found
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
	if r.Version == v1 && worker != nil && slices.ContainsFunc(launcher.Template.Spec.Containers, hasAccelerator) {
		runs = true
		launcherContainer(launcher).Get("resources").MarkPreserved(to + " too: a launcher with a GPU was one of the hosts")
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

func hasAccelerator(c corev1.Container) bool { return gang.CountAccelerators(c.Resources) > 0 }

// convertLauncherTransport reports how the launcher starts the processes of the workers.
func (r *reader) convertLauncherTransport(launcher, worker *ir.Role) {
	r.spec.Get("sshAuthMountPath").MarkChanged("",
		"left out: Rollcall creates the keys, and ssh finds them with /etc/ssh/ssh_config for every user",
		"remove options that name a key file from your commands")
	if r.Version == v2beta1 || worker == nil {
		return
	}
	r.replicaSpecs.AddNote("the launcher connects to the workers with ssh instead of kubectl exec",
		"install the packages openssh-client and openssh-server in the images of both")
	r.removeKubexecOptions(launcher)
}

// removeKubexecOptions removes options that name the script for kubectl exec from the command of the
// launcher.
func (r *reader) removeKubexecOptions(launcher *ir.Role) {
	const script, agent = "kubexec.sh", "plm_rsh_agent"
	c := &launcher.Template.Spec.Containers[0]
	for _, list := range []*[]string{&c.Command, &c.Args} {
		for i := 0; i+2 < len(*list); {
			words := (*list)[i:]
			if strings.TrimLeft(words[0], "-") != "mca" || words[1] != agent || !strings.Contains(words[2], script) {
				i++
				continue
			}
			*list = append((*list)[:i:i], words[3:]...)
			launcherContainer(launcher).AddNote("-mca "+agent+" is removed from the command, because ssh replaces "+script, "")
		}
	}
	if commandContains(launcher, script) {
		launcherContainer(launcher).MarkDropped("the command names /etc/mpi/"+script+", which does not exist",
			"remove the option; mpirun uses ssh by default")
	}
}

func launcherContainer(launcher *ir.Role) source.Field {
	return launcher.Source.At("spec", "containers").Item(0)
}
