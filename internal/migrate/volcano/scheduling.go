package volcano

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// convertScheduling converts the request to the scheduler. Volcano can still schedule the pods,
// because it respects a PodGroup that no controller owns.
func (r *reader) convertScheduling() {
	scheduler := r.resolveScheduler()
	queue, class := r.spec.Get("queue"), r.spec.Get("priorityClassName")
	minAvailable, topology := r.spec.Get("minAvailable"), r.spec.Get("networkTopology")
	request := ir.PodGroup{
		Queue: queue.String(), PriorityClassName: class.String(), Annotations: r.copySchedulingAnnotations(),
	}
	pods := r.gang.PodCount()
	if v := ptr.Deref(minAvailable.Int32(), 0); v > 0 && v < pods {
		request.MinMember = ptr.To(v)
	}
	topology.Keys() // records a value that is not an object as a mistake
	request.NetworkTopology, _ = topology.CopyValue().(map[string]any)
	if !request.Apply(r.gang, scheduler) {
		r.reportNoGangScheduler()
		return
	}
	to := "PodGroup " + r.gang.Name
	if request.MinMember == nil {
		minAvailable.MarkPreserved(to)
	} else {
		minAvailable.MarkChanged(to,
			fmt.Sprintf("Volcano starts the pods when %d of %d can be scheduled; the ranks wait for all of them",
				*request.MinMember, pods),
			"remove it from the PodGroup to reserve nodes only for complete gangs")
	}
	ir.PodGroupFields{Queue: queue, PriorityClass: class, NetworkTopology: topology}.Record(r.gang, scheduler)
}

// resolveScheduler returns the gang scheduler of the pods: the user's choice, or Volcano if the job
// names it. It returns "" for another scheduler.
func (r *reader) resolveScheduler() source.Scheduler {
	f, cluster := r.spec.Get("schedulerName"), r.Context.Scheduler
	name := f.String()
	switch {
	case name == "":
		return cluster
	case name != string(source.SchedulerVolcano):
		f.MarkPreserved("spec.schedulerName of the pods")
		r.forEachTemplate(func(t *corev1.PodTemplateSpec) { t.Spec.SchedulerName = cmp.Or(t.Spec.SchedulerName, name) })
		return ""
	case cluster == source.SchedulerCoscheduling:
		f.MarkLeftOut("coscheduling is the gang scheduler of the cluster")
		return cluster
	default:
		f.MarkPreserved("spec.schedulerName of the pods, and PodGroup " + r.gang.Name)
		return source.SchedulerVolcano
	}
}

// reportNoGangScheduler records the fields that only a gang scheduler uses.
func (r *reader) reportNoGangScheduler() {
	const reason, action = "the gang scheduler of the cluster is not known", "name it with --gang-scheduler"
	if !r.spec.Get("schedulerName").Exists() {
		r.spec.AddNoteWithOutcome(source.Dropped, "",
			"Volcano is the scheduler of a job that names none, and it scheduled all pods together; "+reason, action)
	}
	for _, field := range []string{"minAvailable", "queue", "networkTopology"} {
		r.spec.Get(field).MarkDropped(reason, action)
	}
	class := r.spec.Get("priorityClassName")
	r.forEachTemplate(func(t *corev1.PodTemplateSpec) {
		t.Spec.PriorityClassName = cmp.Or(t.Spec.PriorityClassName, class.String())
	})
	class.MarkPreserved("spec.priorityClassName of the pods")
}

// copySchedulingAnnotations returns the annotations of the job for its scheduler, and copies them to
// the pods, as Volcano does (job_controller_util.go, createJobPod; createOrUpdatePodGroup).
func (r *reader) copySchedulingAnnotations() map[string]string {
	const prefix = "volcano.sh/"
	annotations := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(r.gang.Annotations)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		value := r.gang.Annotations[key]
		annotations[key] = value
		r.Root.At("metadata", "annotations", key).MarkPreserved("annotation of the pods, and of the PodGroup if there is one")
		r.forEachTemplate(func(t *corev1.PodTemplateSpec) { metav1.SetMetaDataAnnotation(&t.ObjectMeta, key, value) })
	}
	return annotations
}

// convertNetworkPlugins converts the plugins for the network of the pods.
func (r *reader) convertNetworkPlugins() {
	if svc, ok := r.plugins["svc"]; ok {
		svc.fieldOf("publish-not-ready-addresses").MarkPreserved("the Service of the gang always publishes them")
		svc.field.AddNote("the Service of the gang replaces it, and publishes pods that are not ready", "")
		svc.fieldOf("disable-network-policy").MarkPreserved("Rollcall creates no NetworkPolicy")
		if !svc.boolOrDefault("disable-network-policy", false) {
			svc.field.AddNote("Volcano created a NetworkPolicy that allowed only connections between pods of the job; "+
				"Rollcall creates none",
				fmt.Sprintf("apply a NetworkPolicy that selects %s: %s if you need it", gang.LabelGang, r.gang.Name))
		}
		svc.fieldOf("inject-hosts-env").MarkPreserved("the variables with the hosts")
	}
	r.convertSSHPlugin()
}

// convertSSHPlugin converts the plugin ssh. Rollcall sets up ssh for frameworks with a launcher.
func (r *reader) convertSSHPlugin() {
	ssh, ok := r.plugins["ssh"]
	if !ok {
		return
	}
	if !r.framework.HasLauncher {
		ssh.field.MarkDropped(
			fmt.Sprintf("ranks of %s do not need ssh, and Rollcall sets it up only for launchers", r.framework.Name),
			"if the program calls ssh, create a Secret with a key pair and mount it at /root/.ssh")
		return
	}
	ssh.field.AddNote("Rollcall sets up ssh with a new key pair, which ssh and sshd find by their configuration "+
		"instead of in /root/.ssh", "")
	for flag := range knownFlags["ssh"] {
		ssh.fieldOf(flag).MarkLeftOut("the configuration of ssh and sshd defines the keys and the port for every user")
	}
}
