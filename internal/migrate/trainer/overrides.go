package trainer

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"k8s.io/utils/ptr"

	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/jobset"
	"rollcall.training/internal/migrate/source"
)

// podFields and containerFields are the fields of a pod and of a container that overrides can have
// (pkg/apis/trainer/v1alpha1, PodSpecPatch and ContainerPatch of 2.3, which include the fields of earlier releases).
var (
	podFields = strings.Fields("serviceAccountName volumes initContainers containers imagePullSecrets securityContext " +
		"nodeSelector affinity tolerations schedulingGates terminationGracePeriodSeconds")
	containerFields = strings.Fields("name env volumeMounts securityContext")
)

// dropOtherFields removes the fields of an override that Trainer does not have.
func dropOtherFields(f source.Field, known []string) {
	for _, key := range f.Keys() {
		if !slices.Contains(known, key) {
			f.Get(key).MarkLeftOut("the API does not have this field, so the API server dropped it")
			f.DeleteKey(key)
		}
	}
}

// kueueManagerPrefix is the prefix of the managers of Kueue's patches.
const kueueManagerPrefix = "kueue.x-k8s.io/"

// applyOverrides applies the overrides of the TrainJob to the runtime, in the forms of all releases.
// No release has more than one form.
func (r *reader) applyOverrides() {
	for _, override := range r.spec.Get("podSpecOverrides").Items() { // 2.0
		jobs := r.resolveTargetJobs(override)
		override.DeleteKey("targetJobs") // it is next to the fields of the pods
		for _, j := range jobs {
			r.patchPodTemplate(j, source.Field{}, override)
		}
	}
	for _, override := range r.spec.Get("podTemplateOverrides").Items() { // 2.1
		for _, j := range r.resolveTargetJobs(override) {
			r.patchPodTemplate(j, override.Get("metadata"), override.Get("spec"))
		}
	}
	for _, patch := range r.spec.Get("runtimePatches").Items() { // since 2.2
		r.applyRuntimePatch(patch)
	}
}

// resolveTargetJobs returns the jobs that an override names.
func (r *reader) resolveTargetJobs(override source.Field) []*jobset.ReplicatedJob {
	list := override.Get("targetJobs")
	if len(list.Items()) == 0 {
		list.MarkRequired("it names the jobs of the runtime to which the override applies")
	}
	var out []*jobset.ReplicatedJob
	for _, target := range list.Items() {
		target.ReportUnreadExcept("name")
		if j := r.resolveJob(target.Get("name")); j != nil {
			target.Get("name").MarkPreserved("the pods of " + j.Name)
			out = append(out, j)
		}
	}
	return out
}

// resolveJob returns the job of the runtime with the given name. It returns nil, and adds an error,
// if there is none.
func (r *reader) resolveJob(name source.Field) *jobset.ReplicatedJob {
	j := r.jobSet.FindJob(name.String())
	if j == nil {
		name.MarkInvalid("must be the name of a job of the runtime")
	}
	return j
}

// applyRuntimePatch applies an entry of runtimePatches.
func (r *reader) applyRuntimePatch(entry source.Field) {
	entry.Get("time").MarkLeftOut("the webhook of Trainer sets it")
	manager := entry.Get("manager")
	if strings.HasPrefix(manager.String(), kueueManagerPrefix) {
		entry.MarkLeftOut("Kueue set it when it admitted the TrainJob, and sets it again when it admits the Jobs")
		return
	}
	manager.MarkLeftOut("it identifies the patch, and migrate applies all patches")
	template := entry.At("trainingRuntimeSpec", "template")
	r.mergeMetadata(template.Get("metadata"), &r.Labels, &r.Annotations, "each workload")
	for _, patch := range template.At("spec", "replicatedJobs").Items() {
		j := r.resolveJob(patch.Get("name"))
		if j == nil {
			continue
		}
		patch.Get("name").MarkPreserved("the pods of " + j.Name)
		r.mergeMetadata(patch.At("template", "metadata"), &j.Template.Labels, &j.Template.Annotations,
			"the workload of "+j.Name)
		pod := patch.At("template", "spec", "template")
		r.patchPodTemplate(j, pod.Get("metadata"), pod.Get("spec"))
	}
}

// mergeMetadata adds labels and annotations.
func (r *reader) mergeMetadata(meta source.Field, labels, annotations *map[string]string, to string) {
	for name, into := range map[string]*map[string]string{"labels": labels, "annotations": annotations} {
		field := meta.Get(name)
		*into = ir.MergeMaps(*into, field.StringMap())
		field.MarkPreserved(name + " of " + to)
	}
}

// patchPodTemplate applies an override to the pods of a job.
func (r *reader) patchPodTemplate(j *jobset.ReplicatedJob, meta, spec source.Field) {
	template := &j.Template.Spec.Template
	if meta.Exists() {
		r.mergeMetadata(meta, &template.Labels, &template.Annotations, "the pods of "+j.Name)
	}
	dropOtherFields(spec, podFields)
	for _, c := range slices.Concat(spec.Get("containers").Items(), spec.Get("initContainers").Items()) {
		dropOtherFields(c, containerFields)
	}
	var patch, patched corev1.PodSpec
	if !spec.Decode(&patch) ||
		!checkContainers(j, spec.Get("containers"), patch.Containers, template.Spec.Containers) ||
		!checkContainers(j, spec.Get("initContainers"), patch.InitContainers, template.Spec.InitContainers) {
		return
	}
	before, errBefore := runtime.DefaultUnstructuredConverter.ToUnstructured(&template.Spec)
	fields, errFields := runtime.DefaultUnstructuredConverter.ToUnstructured(&patch)
	if len(patch.Containers) == 0 {
		delete(fields, "containers") // encoded also if they are not set
	}
	after, errMerge := strategicpatch.StrategicMergeMapPatch(before, fields, corev1.PodSpec{})
	errDecode := runtime.DefaultUnstructuredConverter.FromUnstructured(after, &patched)
	if err := errors.Join(errBefore, errFields, errMerge, errDecode); err != nil {
		spec.MarkInvalid("cannot be merged into the template of the runtime: " + err.Error())
		return
	}
	restoreContainerOrder(patched.Containers, template.Spec.Containers)
	restoreContainerOrder(patched.InitContainers, template.Spec.InitContainers)
	template.Spec = patched
	for name := range fields {
		spec.Get(name).MarkPreserved("the pods of " + j.Name)
	}
}

// checkContainers reports whether the runtime has the containers of an override.
func checkContainers(j *jobset.ReplicatedJob, field source.Field, patches, existing []corev1.Container) bool {
	for i, p := range patches {
		item := field.Item(i)
		if !slices.ContainsFunc(existing, func(c corev1.Container) bool { return c.Name == p.Name }) {
			item.Get("name").MarkInvalid("must be a container of job " + j.Name + " of the runtime")
			return false
		}
		j.EnvFields = append(j.EnvFields, item.Get("env"))
	}
	return true
}

// restoreContainerOrder restores the order of containers before the merge: the first container
// trains, and init containers run in order.
func restoreContainerOrder(now, before []corev1.Container) {
	index := func(c corev1.Container) int {
		return slices.IndexFunc(before, func(o corev1.Container) bool { return o.Name == c.Name })
	}
	slices.SortStableFunc(now, func(a, b corev1.Container) int { return index(a) - index(b) })
}

// findContainer returns the container of the given name, or nil.
func findContainer(j *jobset.ReplicatedJob, name string) *corev1.Container {
	spec := &j.Template.Spec.Template.Spec
	if i := ir.FindContainer(spec, name); i >= 0 {
		return &spec.Containers[i]
	}
	return nil
}

// applyTrainer applies spec.trainer to the training container.
func (r *reader) applyTrainer() {
	j, trainer := r.trainerJob(), r.spec.Get("trainer")
	if j == nil {
		return
	}
	j.TrainingContainer = containerNode
	c := findContainer(j, containerNode)
	if c == nil {
		trainer.MarkDropped("job "+j.Name+" of the runtime does not have the container "+containerNode,
			"rename the training container of the runtime")
		j.TrainingContainer = ""
		return
	}
	if image := trainer.Get("image"); image.Exists() {
		c.Image = image.String()
		image.MarkPreserved("image of container " + c.Name)
	}
	for name, to := range map[string]*[]string{"command": &c.Command, "args": &c.Args} {
		if field := trainer.Get(name); field.Exists() {
			*to = field.Strings()
			field.MarkPreserved(name + " of container " + c.Name)
		}
	}
	// The workers are nodes too if the launcher is one (pkg/runtime/framework/plugins/jobset/builder.go).
	nodeJobs := []*jobset.ReplicatedJob{j}
	launcherIsNode := r.runtime.At("spec", "mlPolicy", policyMPI, "runLauncherAsNode").Bool()
	if worker := r.jobSet.FindJob(jobNode); worker != nil && worker != j && ptr.Deref(launcherIsNode, false) {
		nodeJobs = append(nodeJobs, worker)
	}
	for _, j := range nodeJobs {
		if c := findContainer(j, containerNode); c != nil {
			applyEnv(c, trainer.Get("env"))
			j.EnvFields = append(j.EnvFields, trainer.Get("env"))
			applyResources(c, trainer.Get("resourcesPerNode"))
		}
	}
}

// applyEnv sets variables of a container. They replace variables of the same name.
func applyEnv(c *corev1.Container, field source.Field) {
	var env []corev1.EnvVar
	if !field.Decode(&env) {
		return
	}
	for _, e := range env {
		setEnvVar(c, e)
	}
	field.MarkPreserved("variables of container " + c.Name)
}

func setEnvVar(c *corev1.Container, e corev1.EnvVar) {
	if i := slices.IndexFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == e.Name }); i >= 0 {
		c.Env[i] = e
		return
	}
	c.Env = append(c.Env, e)
}

// applyResources merges the resources of the TrainJob into those of the runtime by name
// (pkg/util/trainingruntime, MergeResourceRequirements).
func applyResources(c *corev1.Container, field source.Field) {
	var own corev1.ResourceRequirements
	if !field.Decode(&own) {
		return
	}
	c.Resources.Limits = ir.MergeMaps(c.Resources.Limits, own.Limits)
	c.Resources.Requests = ir.MergeMaps(c.Resources.Requests, own.Requests)
	field.Get("claims").MarkChanged("", "left out: Trainer uses only limits and requests",
		"add the claims to the template of the new workload")
	field.Get("limits").MarkPreserved("resources of container " + c.Name)
	field.Get("requests").MarkPreserved("resources of container " + c.Name)
}

// applyInitializers applies spec.initializer to the initializers of the runtime.
func (r *reader) applyInitializers() {
	for _, initializer := range []struct{ field, step string }{{"dataset", stepDataset}, {"model", stepModel}} {
		step := initializer.step
		field, j := r.spec.At("initializer", initializer.field), r.jobByStep[step]
		if !field.Exists() {
			continue
		}
		var c *corev1.Container
		if j != nil {
			c = findContainer(j, step)
		}
		if c == nil {
			field.MarkInvalid("needs a job of the runtime with the label " + labelStep + ": " + step + " and a container " +
				step)
			continue
		}
		if uri := field.Get("storageUri"); uri.Exists() {
			setEnvVar(c, corev1.EnvVar{Name: "STORAGE_URI", Value: uri.String()})
			uri.MarkPreserved("variable STORAGE_URI of container " + c.Name)
		}
		applyEnv(c, field.Get("env"))
		j.EnvFields = append(j.EnvFields, field.Get("env"))
		if secret := field.At("secretRef", "name").String(); secret != "" {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{
				SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}},
			})
			field.Get("secretRef").ReportUnreadExcept("name")
			field.Get("secretRef").MarkPreserved("envFrom of container " + c.Name)
		}
	}
}
