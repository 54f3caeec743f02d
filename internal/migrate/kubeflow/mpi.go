package kubeflow

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

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
		ir.ConvertSSH(worker.Name, &worker.Template.Spec, r.gang.TrainingContainer(r.Context, worker), worker.Source,
			r.framework)
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
	slots := ptr.Deref(f.Int32(), 1)
	if slots < 1 {
		f.MarkInvalid("must be 1 or more")
		return
	}
	r.gang.SetAnnotation(gang.AnnotationSlotsPerWorker, fmt.Sprint(slots))
	f.MarkPreserved("annotation " + gang.AnnotationSlotsPerWorker)
}

// convertRunLauncherAsWorker converts whether processes run in the pod of the launcher too. In v1 they
// did if the launcher had a GPU (training-operator, newConfigMap and isGPULauncher).
func (r *reader) convertRunLauncherAsWorker(launcher, worker *ir.Role) {
	const to = "annotation " + gang.AnnotationRunLauncherAsWorker
	f := r.spec.Get("runLauncherAsWorker")
	runs := ptr.Deref(f.Bool(), false)
	if r.Version == v1 && worker != nil && hasGPU(&launcher.Template.Spec) {
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

// hasGPU reports whether a pod has a GPU, by the rule of the operator.
func hasGPU(spec *corev1.PodSpec) bool {
	for i := range spec.Containers {
		for name := range spec.Containers[i].Resources.Limits {
			if strings.Contains(string(name), "gpu") {
				return true
			}
		}
	}
	return false
}

// convertLauncherTransport reports how the launcher starts the processes of the workers.
func (r *reader) convertLauncherTransport(launcher, worker *ir.Role) {
	r.spec.Get("sshAuthMountPath").MarkChanged("",
		"left out: Rollcall creates the keys, and ssh finds them with /etc/ssh/ssh_config for every user",
		"remove options that name a key file from your commands")
	ir.ConvertSSH(launcher.Name, &launcher.Template.Spec, 0, launcher.Source, r.framework)
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
