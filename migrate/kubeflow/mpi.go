package kubeflow

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

func mpiJob() job {
	return job{
		framework: "mpi", versions: []string{v2beta1, v1, v1alpha2, v1alpha1},
		replicas: "mpiReplicaSpecs", byDefault: restartNever,
		sets: mpiVariables,
		parts: []part{{name: "Launcher", role: gang.RoleLauncher, one: true},
			{name: "Worker", role: "worker", set: true, none: true}},
		read: readMPI,
	}
}

// mpiVariables are what the operators set in the launcher: mpi-operator
// (pkg/controller/mpi_job_controller.go, newLauncherJob), and before v2beta1 both it and
// training-operator (pkg/controller.v1/mpi/mpijob_controller.go, newLauncher).
func mpiVariables(r *reader, role string) []string {
	ssh := r.Version == v2beta1
	if role != gang.RoleLauncher {
		if ssh {
			return []string{"K_MPI_JOB_ROLE"}
		}
		return nil
	}
	if !ssh {
		return []string{"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP",
			"I_MPI_HYDRA_BOOTSTRAP_EXEC", "HYDRA_HOST_FILE", "HYDRA_LAUNCHER_EXEC", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
	}
	names := []string{"K_MPI_JOB_ROLE"}
	switch r.spec.Get("mpiImplementation").String() {
	case "Intel":
		names = append(names, "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST")
	case "MPICH":
		names = append(names, "HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS")
	default:
		names = append(names, "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_plm_rsh_args", "OMPI_MCA_orte_set_default_slots")
	}
	if !ptr.Deref(r.spec.Get("runLauncherAsWorker").Bool(), false) {
		names = append(names, "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
	}
	return names
}

func readMPI(r *reader) {
	r.blueprint.Decides = gang.RoleLauncher
	launcher, worker := r.find(gang.RoleLauncher), r.find("worker")
	if launcher == nil {
		r.spec.Get(r.job.replicas).Required("an MPIJob has a Launcher, which starts the processes of all")
		return
	}
	r.relaunches = r.Version != v1
	r.formerHosts(launcher, worker)
	if starts(launcher, "horovodrun") {
		r.blueprint.Framework = "horovod"
	}
	if starts(launcher, "--host-discovery-script") {
		r.at.Note("horovodrun asks for its hosts while it runs: discover_hosts.sh names them, each with its slots, but a gang of fixed size restarts when one is gone",
			"set "+gang.AnnotationElastic+": min:max, the numbers of workers with which it can go on")
	}
	r.slots()
	r.implementation()
	r.launcherRuns(launcher, worker)
	policy := r.spec.Get("launcherCreationPolicy")
	switch policy.String() {
	case "", "WaitForWorkersReady":
		policy.Carried("the launcher waits until all workers answer, always")
	case "AtStartup":
		policy.Changed("", "left out: the launcher waits until all workers answer, always", "")
	default:
		policy.Invalid("must be AtStartup or WaitForWorkersReady")
	}
	if worker != nil {
		r.mainContainer(worker)
		r.serve(worker)
	}
	r.transport(launcher, worker)
}

// formerHosts are the names of the pods: hosts in the domain of the job at v2beta1, and
// before that names of pods for kubectl exec. The launcher's had no index.
func (r *reader) formerHosts(launcher, worker *blueprint.Role) {
	if r.Version == v1alpha1 {
		return
	}
	launcher.Former = blueprint.Former{Prefix: r.blueprint.Name + "-launcher", Single: true, Part: gang.RoleLauncher}
	if worker != nil {
		worker.Former.Alone = false
	}
	if r.Version != v2beta1 {
		return
	}
	for i := range r.blueprint.Roles { // as the operator does
		spec, n := &r.blueprint.Roles[i].Template.Spec, r.blueprint.Roles[i].Node.Get("spec")
		if spec.HostNetwork {
			spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		}
		spec.Hostname, spec.Subdomain = "", ""
		for _, key := range []string{"hostname", "subdomain"} {
			n.Get(key).Changed("", "left out: the operator overwrote it", "")
		}
	}
}

// starts reports whether a word stands in the command of the container that trains.
func starts(role *blueprint.Role, word string) bool {
	found := false
	blueprint.Texts(&role.Template.Spec.Containers[0], func(text *string) { found = found || strings.Contains(*text, word) })
	return found
}

// slots carries the number of processes on each host. It is written down where the
// manifest says nothing too: for Rollcall it could follow nprocPerNode.
func (r *reader) slots() {
	n := r.spec.Get("slotsPerWorker")
	if !n.Exists() && r.blueprint.Keys[gang.AnnotationSlots] != "" {
		return // the first version derives them
	}
	v := ptr.Deref(n.Int32(), 1)
	if v < 1 {
		n.Invalid("must be at least 1")
		return
	}
	r.blueprint.Keys[gang.AnnotationSlots] = fmt.Sprint(v)
	n.Carried("annotation " + gang.AnnotationSlots)
}

// implementation carries which MPI the image has.
func (r *reader) implementation() {
	for _, key := range []string{"mpiImplementation", "mpiDistribution"} {
		n := r.spec.Get(key)
		var value gang.MPI
		switch n.String() {
		case "":
			continue
		case "OpenMPI", "open_mpi":
			value = gang.OpenMPI
		case "Intel", "intel_mpi":
			value = gang.IntelMPI
		case "MPICH", "mpich":
			value = gang.MPICH
		default:
			n.Invalid("must be OpenMPI, Intel or MPICH")
			continue
		}
		if value != gang.OpenMPI {
			r.blueprint.Keys[gang.AnnotationMPI] = string(value)
		}
		n.Carried("annotation " + gang.AnnotationMPI)
	}
}

// launcherRuns carries whether the launcher's pod is a host too. At v1 it was one when it
// had a GPU (training-operator, newConfigMap and isGPULauncher).
func (r *reader) launcherRuns(launcher, worker *blueprint.Role) {
	n := r.spec.Get("runLauncherAsWorker")
	runs := ptr.Deref(n.Bool(), false)
	const to = "annotation " + gang.AnnotationLauncherRuns
	if r.Version == v1 && worker != nil && hasGPU(&launcher.Template.Spec) {
		runs = true
		r.launcherNode(launcher).Get("resources").Carried(to + " too: a launcher with a GPU was one of the hosts")
	}
	switch {
	case worker == nil:
		n.Carried("the launcher is alone, and runs its processes itself")
	case runs:
		r.blueprint.Keys[gang.AnnotationLauncherRuns] = "true"
		n.Carried(to)
	default:
		n.Carried(to + ", which is false by default")
	}
}

// hasGPU is the operator's test for a launcher that computes itself.
func hasGPU(spec *corev1.PodSpec) bool {
	for i := range spec.Containers {
		for name := range spec.Containers[i].Resources.Limits {
			if strings.HasSuffix(string(name), ".com/gpu") || strings.Contains(string(name), "gpu") {
				return true
			}
		}
	}
	return false
}

// mainContainer carries the container in which kubectl exec started the processes.
func (r *reader) mainContainer(worker *blueprint.Role) {
	n := r.spec.Get("mainContainer")
	name := n.String()
	if name == "" {
		return
	}
	at := trainer(&worker.Template.Spec, name)
	if worker.Template.Spec.Containers[at].Name != name {
		n.Changed("", "left out: no container of the workers has the name, and the first trains", "")
		return
	}
	r.train(worker, at)
	n.Carried("the workers' container that trains")
}

// transport tells how the launcher reaches the workers now.
func (r *reader) transport(launcher, worker *blueprint.Role) {
	path := r.spec.Get("sshAuthMountPath")
	path.Changed("", "left out: Rollcall's keys are its own, and ssh finds them by /etc/ssh/ssh_config, whatever the user", "take options that name a key file out of your commands")
	if r.Version == v2beta1 || worker == nil {
		return
	}
	r.at.Note("the launcher reached its workers by kubectl exec, through the API server, and does by ssh now",
		"see that the image of both has ssh and sshd: the packages openssh-client and openssh-server")
	r.kubexec(launcher)
}

// kubexec takes options out of the launcher's command that name the script of kubectl
// exec.
func (r *reader) kubexec(launcher *blueprint.Role) {
	const script, agent = "kubexec.sh", "plm_rsh_agent"
	c := &launcher.Template.Spec.Containers[0]
	for _, list := range []*[]string{&c.Command, &c.Args} {
		for i := 0; i+2 < len(*list); {
			words := (*list)[i:]
			if strings.TrimLeft(words[0], "-") == "mca" && words[1] == agent && strings.Contains(words[2], script) {
				*list = append((*list)[:i:i], words[3:]...)
				r.launcherNode(launcher).Note("-mca "+agent+" was taken out of its command: there is no "+script+" any more, ssh starts the processes", "")
				continue
			}
			i++
		}
	}
	if starts(launcher, script) {
		r.launcherNode(launcher).Lost("its command names /etc/mpi/"+script+", which there is no more", "take the option out; ssh is what mpirun uses by itself")
	}
}

func (r *reader) launcherNode(launcher *blueprint.Role) ledger.Node {
	return launcher.Node.At("spec", "containers").Item(0)
}
