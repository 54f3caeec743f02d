package trainer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"rollcall.training/internal/migrate/jobset"
	"rollcall.training/internal/migrate/source"
)

// Fields of a pod and of a container that overrides can have. The API server removes all others
// (pkg/apis/trainer/v1alpha1, PodSpecPatch and ContainerPatch of 2.3, which include the fields of
// earlier releases).
var (
	patchablePodFields = []string{
		"serviceAccountName", "volumes", "initContainers", "containers", "imagePullSecrets", "securityContext",
		"nodeSelector", "affinity", "tolerations", "schedulingGates", "terminationGracePeriodSeconds",
	}
	patchableContainerFields = []string{"name", "env", "volumeMounts", "securityContext"}
)

// kueueManagerPrefix is the prefix of the managers of Kueue's patches.
const kueueManagerPrefix = "kueue.x-k8s.io/"

// applyOverrides applies the overrides of the TrainJob to the runtime, in the forms of all releases.
// No release has more than one form.
func (r *reader) applyOverrides() {
	for _, override := range r.spec.Get("podSpecOverrides").Items() { // 2.0
		for _, j := range r.resolveTargetJobs(override) {
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
		for key, value := range field.StringMap() {
			if *into == nil {
				*into = map[string]string{}
			}
			(*into)[key] = value
		}
		field.MarkPreserved(name + " of " + to)
	}
}

// patchPodTemplate applies an override to the pods of a job.
func (r *reader) patchPodTemplate(j *jobset.ReplicatedJob, meta, spec source.Field) {
	template := &j.Template.Spec.Template
	if meta.Exists() {
		r.mergeMetadata(meta, &template.Labels, &template.Annotations, "the pods of "+j.Name)
	}
	patch, ok := r.filterPodPatch(j, spec)
	if !ok || len(patch) == 0 {
		return
	}
	patched, err := mergePodSpec(template.Spec, patch)
	if err != nil {
		spec.MarkInvalid("cannot be merged into the template of the runtime: " + err.Error())
		return
	}
	restoreContainerOrder(patched.Containers, template.Spec.Containers)
	restoreContainerOrder(patched.InitContainers, template.Spec.InitContainers)
	template.Spec = patched
	for _, name := range patchablePodFields {
		spec.Get(name).MarkPreserved("the pods of " + j.Name)
	}
}

// mergePodSpec applies a strategic merge patch.
func mergePodSpec(spec corev1.PodSpec, patch map[string]any) (corev1.PodSpec, error) {
	var out corev1.PodSpec
	before, err := json.Marshal(spec)
	if err != nil {
		return out, fmt.Errorf("encoding the template: %w", err)
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return out, fmt.Errorf("encoding the patch: %w", err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, text, corev1.PodSpec{})
	if err != nil {
		return out, fmt.Errorf("applying the patch: %w", err)
	}
	if err := json.Unmarshal(after, &out); err != nil {
		return out, fmt.Errorf("decoding the result: %w", err)
	}
	return out, nil
}

// restoreContainerOrder restores the order of containers before the merge: the first container
// trains, and init containers run in order.
func restoreContainerOrder(now, before []corev1.Container) {
	index := func(c corev1.Container) int {
		return slices.IndexFunc(before, func(o corev1.Container) bool { return o.Name == c.Name })
	}
	slices.SortStableFunc(now, func(a, b corev1.Container) int { return index(a) - index(b) })
}

// filterPodPatch returns an override without the fields that the API server removes. It returns false
// for an invalid override.
func (r *reader) filterPodPatch(j *jobset.ReplicatedJob, spec source.Field) (map[string]any, bool) {
	if !spec.Decode(&corev1.PodSpec{}) {
		return nil, false
	}
	patch := map[string]any{}
	for _, name := range spec.Keys() {
		field, existing := spec.Get(name), j.Template.Spec.Template.Spec.Containers
		switch {
		case name == "targetJobs": // next to the fields of the pod in 2.0; resolveTargetJobs reads it
			field.DiscardEntries()
			continue
		case name == "initContainers":
			existing = j.Template.Spec.Template.Spec.InitContainers
		case name != "containers":
			copyPatchable(patch, field, name, patchablePodFields)
			continue
		}
		var list []any
		for _, item := range field.Items() {
			container := item.Get("name").String()
			if !slices.ContainsFunc(existing, func(c corev1.Container) bool { return c.Name == container }) {
				item.Get("name").MarkInvalid(fmt.Sprintf("must be one of the %s of job %s of the runtime", name, j.Name))
				continue
			}
			containerPatch := map[string]any{}
			for _, key := range item.Keys() {
				copyPatchable(containerPatch, item.Get(key), key, patchableContainerFields)
			}
			list = append(list, containerPatch)
			j.EnvFields = append(j.EnvFields, item.Get("env"))
		}
		if len(list) > 0 {
			patch[name] = list
		}
	}
	return patch, true
}

// copyPatchable copies a field into a patch if it is one of the patchable fields. The API server removes
// all others.
func copyPatchable(patch map[string]any, field source.Field, name string, patchable []string) {
	if value := field.CopyValue(); slices.Contains(patchable, name) && value != nil {
		patch[name] = value
		return
	} else if value == nil {
		return
	}
	field.DiscardEntries() // of Decode
	field.MarkChanged("", "left out: the API server removes this field from overrides",
		"if you need it, set it on the new workload")
}
