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

// Group is the API group of Volcano's Job.
const Group = "batch.volcano.sh"

// Roles that the reader refers to.
const (
	roleMaster = "master"
	roleWorker = "worker"
)

// reader reads one Job.
type reader struct {
	source.Object
	spec source.Field
	gang *ir.Gang
	// framework has the roles in the order of their ranks, and the default port.
	framework gang.Framework
	// plugins are those of the manifest and those that Volcano's webhook adds.
	plugins map[string]parsedFlags
	// hostsInEnv is true if the plugin svc sets variables with the hosts.
	hostsInEnv bool
	// texts are the commands and variables of all tasks.
	texts []string
	// pods are the pods of all tasks as the user wrote them.
	pods []*corev1.PodSpec
	// tasks are the tasks of the gang, in the order of its roles.
	tasks []task
	// podCount is the number of pods of all tasks.
	podCount int32
	// jobPolicies are the policies of the Job, which apply to all tasks.
	jobPolicies []lifecyclePolicy
}

// task is an entry of spec.tasks.
type task struct {
	name  string
	field source.Field
	// policies are those of the task.
	policies []lifecyclePolicy
}

// Read returns the description of a Job. Mistakes in the manifest are in the Recorder of the object.
// The error is for a kind or a version that cannot be migrated.
func Read(o source.Object) (*ir.Gang, error) {
	if err := o.CheckVersion(); err != nil {
		return nil, err
	}
	r := &reader{Object: o, spec: o.Root.Get("spec"), gang: ir.NewGang(o), plugins: map[string]parsedFlags{}}
	r.gang.SourceLabels = listSourceLabels()
	r.readPlugins()
	var candidates []candidate // the tasks that have pods
	for i := range r.spec.Get("tasks").Items() {
		if c, ok := r.readTask(i); ok {
			candidates = append(candidates, c)
		}
	}
	if !r.chooseFramework() {
		return r.gang, nil
	}
	r.assignTasks(candidates)
	r.gang.ConvertTTL(r.spec.Get("ttlSecondsAfterFinished"))
	if state := r.Root.At("status", "state", "phase"); strings.HasPrefix(state.String(), "Abort") { // aborted or aborting
		r.gang.JobSpec.Suspend = ptr.To(true)
		state.AddNoteWithOutcome(source.Changed, "spec.suspend: true of each Job", "an aborted job does not run",
			"set spec.suspend: false on each Job to start the gang")
	}
	if len(r.gang.Roles) == 0 {
		if !r.spec.HasErrors() {
			r.spec.Get("tasks").MarkRequired("no task has a role in " + r.framework.Name)
		}
		return r.gang, nil
	}
	r.convertTemplates()
	if r.framework.HasLauncher && len(r.gang.Roles) > 1 {
		launcher, worker := &r.gang.Roles[0], &r.gang.Roles[1]
		r.gang.InferSlotsPerWorker(&launcher.Template.Spec, launcher.Source.At("spec", "containers"),
			worker.Template.Spec.Containers, int(worker.Pods), r.framework.StartsByAccelerator)
	}
	r.spec.Get("volumes").MarkDropped("migrate does not add the volumes of a Volcano Job to its pods",
		"add the claims to volumes of the pod templates, and to volumeMounts of their containers; if Volcano created a "+
			"claim, Kubernetes deletes the claim and its data with the Volcano Job, unless you remove its ownerReferences")
	for _, name := range []string{"runningEstimate", "minSuccess"} {
		r.spec.Get(name).MarkDropped("a gang has no estimate of its time, and a role or all ranks complete it",
			"see "+gang.AnnotationSuccessPolicy+", and spec.activeDeadlineSeconds of a Job")
	}
	r.convertPolicies()
	r.convertNetworkPlugins()
	r.addPluginVars()
	r.convertScheduling()
	return r.gang, nil
}

// taskIndexLabel is the label, and the annotation, with the index of a pod in its task.
const taskIndexLabel = "volcano.sh/task-index"

// listSourceLabels returns the labels and annotations that Volcano gives to pods
// (job_controller_util.go, createJobPod; volcano.sh/apis, pkg/apis/batch/v1alpha1/labels.go).
func listSourceLabels() map[string]ir.SourceLabel {
	labels := map[string]ir.SourceLabel{
		"volcano.sh/job-name":  {Meaning: ir.MeaningGang},
		"volcano.sh/task-spec": {Meaning: ir.MeaningRole},
		taskIndexLabel:         {},
	}
	for _, name := range []string{
		"job-namespace", "queue-name", "job-version", "job-retry-count", "template-uid", "task-priority",
	} {
		labels["volcano.sh/"+name] = ir.SourceLabel{}
	}
	return labels
}

// chooseFramework determines the framework by the plugin, by the user's choice or by the commands.
// Programs of no known framework form a generic gang. It returns false after it recorded a mistake.
func (r *reader) chooseFramework() bool {
	plugins := r.spec.Get("plugins")
	if r.hasPlugin("ray") {
		plugins.Get("ray").MarkInvalid("Rollcall does not support Ray; keep the job in Volcano, or use KubeRay")
		return false
	}
	for _, name := range frameworkPlugins {
		if r.hasPlugin(name) {
			r.plugins[name].field.AddNote(fmt.Sprintf("the label %s: %s replaces the plugin", gang.LabelFramework, name), "")
			return r.setFramework(name)
		}
	}
	if name := r.Context.Framework; name != "" {
		if !r.setFramework(name) {
			plugins.MarkRequired(fmt.Sprintf("--framework=%s is not supported; the supported frameworks are %s",
				name, strings.Join(r.Context.Frameworks.Names(), ", ")))
			return false
		}
		return true
	}
	return r.setFramework(ir.DetectFramework(r.Context.Frameworks, r.spec, r.pods...))
}

// setFramework sets the framework of the gang. It returns false if Rollcall does not support it.
func (r *reader) setFramework(name string) bool {
	framework, ok := r.Context.Frameworks.Find(name)
	r.framework, r.gang.Framework = framework, name
	return ok
}

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
	request.Record(r.gang, scheduler, class, queue, topology)
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
	annotations := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(r.gang.Annotations)) {
		value := r.gang.Annotations[key]
		if !strings.HasPrefix(key, "volcano.sh/") {
			continue
		}
		annotations[key] = value
		r.Root.At("metadata", "annotations", key).MarkPreserved("annotation of the pods, and of the PodGroup if there is one")
		r.forEachTemplate(func(t *corev1.PodTemplateSpec) { metav1.SetMetaDataAnnotation(&t.ObjectMeta, key, value) })
	}
	return annotations
}

// convertNetworkPlugins converts the plugins for the network of the pods.
func (r *reader) convertNetworkPlugins() {
	if svc, ok := r.plugins["svc"]; ok {
		svc.field.AddNote("the Service of the gang replaces it, and publishes pods that are not ready", "")
		if svc.values["disable-network-policy"] != "true" {
			svc.field.AddNote("Volcano created a NetworkPolicy that allowed only connections between pods of the job; "+
				"Rollcall creates none",
				fmt.Sprintf("apply a NetworkPolicy that selects %s: %s if you need it", gang.LabelGang, r.gang.Name))
		}
	}
	ssh, ok := r.plugins["ssh"]
	switch {
	case !ok:
	case !r.framework.HasLauncher:
		ssh.field.MarkDropped(
			fmt.Sprintf("ranks of %s do not need ssh, and Rollcall sets it up only for launchers", r.framework.Name),
			"if the program calls ssh, create a Secret with a key pair and mount it at /root/.ssh")
	default:
		ssh.field.AddNote("Rollcall sets up ssh with a new key pair, which ssh and sshd find by their configuration "+
			"instead of in /root/.ssh", "")
	}
}
