package volcano

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
	"rollcall.training/migrate/podgroup"
)

// scheduling carries what the scheduler is asked for. Volcano can go on placing the
// pods, since it heeds a PodGroup that lies beside them.
func (r *reader) scheduling() {
	scheduler := r.scheduler()
	w := podgroup.Wish{Queue: r.spec.Get("queue").String(), PriorityClass: r.spec.Get("priorityClassName").String(), Annotations: r.hints()}
	pods := int32(0)
	for _, b := range r.blueprint.Roles {
		pods += b.Pods
	}
	least := r.spec.Get("minAvailable")
	if v := ptr.Deref(least.Int32(), 0); v > 0 && v < pods {
		w.MinMember = ptr.To(v)
	}
	topology := r.spec.Get("networkTopology")
	topology.Keys() // an object, or a mistake
	w.NetworkTopology, _ = topology.Tree().(map[string]any)
	if !w.Apply(r.blueprint, scheduler) {
		r.unscheduled()
		return
	}
	to := "PodGroup " + r.blueprint.Name
	if w.MinMember == nil {
		least.Carried(to)
	} else {
		least.Changed(to, fmt.Sprintf("Volcano lets the pods begin when %d of %d find a place; the ranks wait for all of them", *w.MinMember, pods),
			"remove it from the PodGroup to hold nodes for whole gangs alone")
	}
	if scheduler == origin.Coscheduling {
		r.spec.Get("priorityClassName").Carried("spec.priorityClassName of the pods")
		r.spec.Get("queue").Lost("coscheduling has no queues", "")
		topology.Lost("coscheduling knows no network topology", "")
		return
	}
	r.spec.Get("priorityClassName").Carried(to)
	r.spec.Get("queue").Carried(to)
	topology.Carried(to)
}

// scheduler is the gang scheduler that will place the pods: the cluster's, as the user
// says, or Volcano where the job names it; empty where another shall.
func (r *reader) scheduler() origin.Scheduler {
	n, cluster := r.spec.Get("schedulerName"), r.Around.Scheduler
	switch name := n.String(); {
	case name == "":
		return cluster
	case name == string(origin.Volcano) && cluster == origin.Coscheduling:
		n.Changed("", "left out: coscheduling is the cluster's gang scheduler now", "")
		return cluster
	case name == string(origin.Volcano):
		n.Carried("spec.schedulerName of the pods, and PodGroup " + r.blueprint.Name)
		return origin.Volcano
	default:
		n.Carried("spec.schedulerName of the pods")
		r.each(func(t *corev1.PodTemplateSpec) {
			if t.Spec.SchedulerName == "" {
				t.Spec.SchedulerName = name
			}
		})
		return ""
	}
}

// unscheduled accounts for what only a gang scheduler heeds.
func (r *reader) unscheduled() {
	reason, do := "no gang scheduler is named that would heed it", "name yours with --gang-scheduler"
	if r.spec.Get("schedulerName").Exists() {
		reason, do = "nobody knows whether the scheduler of that name heeds PodGroups", "write schedulerName: volcano if it is Volcano under another name"
	}
	if !r.spec.Get("schedulerName").Exists() {
		r.spec.Remark(ledger.Lost, "", "Volcano, which is the scheduler of a job that names none, placed the pods all at once; "+reason, do)
	}
	for _, field := range []string{"minAvailable", "queue", "networkTopology"} {
		r.spec.Get(field).Lost(reason, do)
	}
	if class := r.spec.Get("priorityClassName"); class.String() != "" {
		r.each(func(t *corev1.PodTemplateSpec) {
			if t.Spec.PriorityClassName == "" {
				t.Spec.PriorityClassName = class.String()
			}
		})
		class.Changed("spec.priorityClassName of the pods", "without a PodGroup it is the pods' own", "")
	}
}

// schedulingKeys begin the annotations of the job that Volcano copies to the pods and to
// the PodGroup (job_controller_util.go, createJobPod; createOrUpdatePodGroup).
const schedulingKeys = "volcano.sh/"

// hints are the job's annotations to its scheduler, which the pods get as well.
func (r *reader) hints() map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(r.blueprint.Annotations)) {
		value := r.blueprint.Annotations[key]
		if !strings.HasPrefix(key, schedulingKeys) {
			continue
		}
		out[key] = value
		r.Root.At("metadata", "annotations", key).Carried("annotation of the pods, and of the PodGroup where there is one")
		r.each(func(t *corev1.PodTemplateSpec) { annotate(t, key, value) })
	}
	return out
}

// network says what becomes of the plugins about the pods' network.
func (r *reader) network() {
	if svc, ok := r.plugins["svc"]; ok {
		svc.node("publish-not-ready-addresses").Carried("the gang's Service always publishes them")
		service := "the gang's Service is Rollcall's"
		if !svc.truth("publish-not-ready-addresses", false) {
			service += ", and publishes pods before they are ready, since ranks meet in order to become ready"
		}
		svc.plugin.Note(service, "")
		svc.node("disable-network-policy").Carried("Rollcall makes no NetworkPolicy")
		if !svc.truth("disable-network-policy", false) {
			svc.plugin.Note("Volcano made a NetworkPolicy that let in pods of this job alone; Rollcall makes none",
				fmt.Sprintf("apply one that selects %s: %s if you need it", gang.LabelGang, r.blueprint.Name))
		}
		svc.node("inject-hosts-env").Carried("the variables with the hosts")
	}
	r.ssh()
}

// ssh says what becomes of the plugin ssh. The frameworks with a launcher have ssh of
// Rollcall's.
func (r *reader) ssh() {
	f, ok := r.plugins["ssh"]
	if !ok {
		return
	}
	if !r.framework.launches {
		f.plugin.Lost(fmt.Sprintf("ranks of %s do not need ssh, and Rollcall has it for launchers alone", r.framework.name),
			"if the program calls ssh by itself, make a Secret with a key pair, and mount it at /root/.ssh")
		return
	}
	f.plugin.Note("ssh of the gang is Rollcall's: a fresh key pair, which ssh and sshd find by their configuration and not in /root/.ssh", "")
	for _, flag := range []string{"ssh-key-file-path", "ssh-port", "no-root"} {
		f.node(flag).Changed("", "left out: the configuration of ssh and sshd says where the keys are and which port it is, for each user", "")
	}
	for _, flag := range []string{"ssh-private-key", "ssh-public-key"} {
		f.node(flag).Changed("", "left out: the gang has a fresh key pair of its own, and trusts no other", "")
	}
}
