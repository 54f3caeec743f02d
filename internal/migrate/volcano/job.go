package volcano

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// Group is the API group of Volcano's Job.
const Group = "batch.volcano.sh"

// jobKind is the only kind of the group that is a training job.
const jobKind = "Job"

// supportedVersions are the versions of the group.
var supportedVersions = []string{"v1alpha1", "v1"}

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
	// standaloneJobs are the Jobs of the tasks without a role. They get the settings of the job, too.
	standaloneJobs []*batchv1.Job
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
	if o.Kind != jobKind {
		return nil, fmt.Errorf("kind %s of %s: %w; migrate the Job of its template, "+
			"and put the result into a CronJob of batch/v1",
			o.Kind, Group, source.ErrUnsupported)
	}
	if !slices.Contains(supportedVersions, o.Version) {
		return nil, fmt.Errorf("%s %s: %w; use %s",
			o.Kind, o.Version, source.ErrUnsupported, strings.Join(supportedVersions, " or "))
	}
	r := &reader{Object: o, spec: o.Root.Get("spec"), gang: ir.NewGang(o), plugins: map[string]parsedFlags{}}
	r.gang.SourceLabels = listSourceLabels()
	r.readPlugins()
	candidates := r.readTasks()
	if !r.chooseFramework() {
		return r.gang, nil
	}
	r.assignTasks(candidates)
	r.convertSuspendAndTTL()
	if len(r.gang.Roles) == 0 {
		r.recordRemainingErrors()
		return r.gang, nil
	}
	r.convertTemplates()
	if r.framework.HasLauncher && len(r.gang.Roles) > 1 {
		launcher, worker := &r.gang.Roles[0], &r.gang.Roles[1]
		r.gang.InferSlotsPerWorker(&launcher.Template.Spec, launcher.Source.At("spec", "containers"),
			worker.Template.Spec.Containers, int(worker.Pods), r.framework.StartsByAccelerator)
	}
	r.convertVolumes()
	r.convertPolicies()
	r.convertNetworkPlugins()
	r.addPluginVars()
	r.convertScheduling()
	return r.gang, nil
}

// recordRemainingErrors reads the fields that a job without roles does not need, so that the report
// contains all mistakes at once.
func (r *reader) recordRemainingErrors() {
	readPolicies(r.spec.Get("policies"))
	r.convertVolumes()
	r.convertNetworkPlugins()
	for _, field := range []string{"minAvailable", "minSuccess", "maxRetry"} {
		r.spec.Get(field).Int32()
	}
}

// convertSuspendAndTTL converts the fields for finished and aborted jobs.
func (r *reader) convertSuspendAndTTL() {
	r.gang.ConvertTTL(r.spec.Get("ttlSecondsAfterFinished"))
	for _, job := range r.standaloneJobs {
		job.Spec.TTLSecondsAfterFinished = r.gang.JobSpec.TTLSecondsAfterFinished
	}
	r.spec.Get("runningEstimate").MarkDropped(
		"it was a hint to the scheduler, not a limit, and a PodGroup has no such field",
		"set spec.activeDeadlineSeconds on the Job for a limit")
	if phase := r.readPhase(); phase == "Aborted" || phase == "Aborting" {
		r.gang.JobSpec.Suspend = ptr.To(true)
		for _, job := range r.standaloneJobs {
			job.Spec.Suspend = ptr.To(true)
		}
		r.Root.At("status", "state", "phase").MarkChanged("spec.suspend of each Job",
			"the job was aborted and can be resumed", "set spec.suspend: false to resume it")
	}
}

// readPhase returns the phase of a job that was read from a cluster, or "". Users do not write it, so
// a value of the wrong type is not a mistake.
func (r *reader) readPhase() string {
	status, _ := r.Root.Get("status").CopyValue().(map[string]any)
	state, _ := status["state"].(map[string]any)
	phase, _ := state["phase"].(string)
	return phase
}

// hasRole reports whether the gang has a role.
func (r *reader) hasRole(name string) bool {
	return slices.ContainsFunc(r.gang.Roles, func(role ir.Role) bool { return role.Name == name })
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
