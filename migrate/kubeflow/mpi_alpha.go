package kubeflow

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// mpiAlpha reads the first form of MPIJob, which had one template, and a number of
// processing units in the place of replicas (mpi-operator v0.2,
// pkg/controllers/v1alpha1/mpi_job_controller.go). Workers had the units as limits; the
// launcher had no resources at all.
func (r *reader) mpiAlpha() {
	n := r.spec.Get("template")
	r.at = n
	probe := blueprint.Role{Node: n}
	if !r.template(&probe, r.spec) {
		return
	}
	r.restarts = nil
	pods, units := r.allocate(&probe.Template.Spec.Containers[0])
	if n.Mistaken() {
		return
	}
	launcher := r.alphaRole(gang.RoleLauncher, 1, probe)
	launcher.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	r.onMaster(&launcher.Template.Spec)
	r.blueprint.Roles = append(r.blueprint.Roles, launcher)
	if pods > 0 {
		worker := r.alphaRole("worker", pods, probe)
		worker.Set = true
		c := &worker.Template.Spec.Containers[0]
		for _, field := range []string{"command", "args"} { // that of the launcher alone
			n.At("spec", "containers").Item(0).Get(field).Carried("the launcher's " + field)
		}
		c.Command, c.Args = nil, nil
		if units > 0 {
			if c.Resources.Limits == nil {
				c.Resources.Limits = corev1.ResourceList{}
			}
			c.Resources.Limits[r.unit()] = *resource.NewQuantity(int64(units), resource.DecimalSI)
		}
		r.blueprint.Roles = append(r.blueprint.Roles, worker)
	}
	if slots := r.spec.Get("slotsPerWorker"); !slots.Exists() {
		r.blueprint.Keys[gang.AnnotationSlots] = fmt.Sprint(max(1, units))
	}
	n.At("spec", "containers").Item(0).Get("resources").Carried("the workers' resources; the launcher has none, as before")
}

func (r *reader) alphaRole(name string, pods int32, like blueprint.Role) blueprint.Role {
	role := blueprint.Role{Name: name, Pods: pods, Node: like.Node, Template: *like.Template.DeepCopy(), Keys: map[string]string{},
		Former: blueprint.Former{Part: name, Prefix: r.blueprint.Name + "-" + name + "-"}}
	if name == gang.RoleLauncher {
		role.Former.Prefix = "" // its pod had a random name
	}
	policy := like.Node.At("spec", "restartPolicy")
	r.restarts = append(r.restarts, restart{role: name, node: policy})
	return role
}

// unit is the resource that the units count.
func (r *reader) unit() corev1.ResourceName {
	n := r.spec.Get("processingResourceType")
	name := cmp.Or(n.String(), "nvidia.com/gpu")
	if name != "nvidia.com/gpu" && name != "cpu" {
		n.Invalid("must be nvidia.com/gpu or cpu")
	}
	n.Carried("the limits of the workers")
	return corev1.ResourceName(name)
}

// allocate shares the units out among workers.
func (r *reader) allocate(c *corev1.Container) (pods, units int32) {
	unit := r.unit()
	for _, f := range [][2]string{{"gpus", "gpusPerNode"}, {"processingUnits", "processingUnitsPerNode"}} {
		total, per := r.spec.Get(f[0]), r.spec.Get(f[1])
		switch {
		case !total.Exists():
			per.Changed("", "left out: there are no "+f[0]+" to share out", "")
		case pods > 0:
			total.Invalid("must not be used with gpus; remove one")
		case !per.Exists():
			per.Required("the operator took it from its flags, which are not known here; write how many of the " + f[0] + " one worker has")
		default:
			pods, units = share(total, per)
			total.Carried("the number of workers")
			per.Carried("the limits of the workers")
		}
	}
	n := r.spec.Get("replicas")
	switch replicas := ptr.Deref(n.Int32(), 0); {
	case pods > 0:
		n.Changed("", "left out: the number of units counts", "")
	case replicas < 0 || replicas > maxPods:
		n.Invalid(fmt.Sprintf("must be a number of pods from 0 to %d", maxPods))
	default:
		n.Carried("the workers' number of pods")
		limit := c.Resources.Limits[unit]
		return replicas, int32(min(limit.Value(), 1024))
	}
	return pods, units
}

// share is the number of workers, and of units for each.
func share(total, per ledger.Node) (pods, units int32) {
	t, p := ptr.Deref(total.Int32(), 0), ptr.Deref(per.Int32(), 0)
	switch {
	case t < 1:
		total.Invalid("must be at least 1")
	case p < 1:
		per.Invalid("must be at least 1")
	case t < p:
		return 1, t
	case t%p != 0 || t/p > maxPods:
		total.Invalid(fmt.Sprintf("must be a multiple of the units of one worker, %d", p))
	default:
		return t / p, p
	}
	return 0, 0
}

// onMaster carries that the launcher runs on a node of the control plane.
func (r *reader) onMaster(spec *corev1.PodSpec) {
	const label = "node-role.kubernetes.io/control-plane"
	n := r.spec.Get("launcherOnMaster")
	if !ptr.Deref(n.Bool(), false) {
		n.Carried("the default")
		return
	}
	spec.Tolerations = []corev1.Toleration{{Key: label, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpExists}}}},
	}}}
	n.Changed("tolerations and affinity of the launcher", "nodes of the control plane bear the label "+label+" since Kubernetes 1.24, and not the one that the operator asked for", "")
}
