package trainer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"rollcall.training/migrate/jobset"
	"rollcall.training/migrate/ledger"
)

// Fields that overrides may have, of a pod and of a container: the API server prunes all
// others (pkg/apis/trainer/v1alpha1, PodSpecPatch and ContainerPatch of 2.3, which has
// those of the releases before).
var (
	podFields = []string{"serviceAccountName", "volumes", "initContainers", "containers", "imagePullSecrets", "securityContext",
		"nodeSelector", "affinity", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"}
	containerFields = []string{"name", "env", "volumeMounts", "securityContext"}
)

// managerKueue begins the names of Kueue's patches.
const managerKueue = "kueue.x-k8s.io/"

// overrides applies the changes to the runtime, in the three forms that releases gave
// them. No release has two of them.
func (r *reader) overrides() {
	for _, n := range r.spec.Get("podSpecOverrides").Items() { // 2.0
		for _, j := range r.targets(n) {
			r.pod(j, ledger.Node{}, n)
		}
	}
	for _, n := range r.spec.Get("podTemplateOverrides").Items() { // 2.1
		for _, j := range r.targets(n) {
			r.pod(j, n.Get("metadata"), n.Get("spec"))
		}
	}
	for _, n := range r.spec.Get("runtimePatches").Items() { // from 2.2 on
		r.patch(n)
	}
}

// targets are the jobs that an override names.
func (r *reader) targets(n ledger.Node) []*jobset.Job {
	list := n.Get("targetJobs")
	if len(list.Items()) == 0 {
		list.Required("an override says which jobs of the runtime it is for")
	}
	var out []*jobset.Job
	for _, t := range list.Items() {
		t.Only("name")
		if j := r.job(t.Get("name")); j != nil {
			t.Get("name").Carried("the pods of " + j.Name)
			out = append(out, j)
		}
	}
	return out
}

// job is the job of the runtime that a name is of; nil, and a mistake, where there is
// none.
func (r *reader) job(n ledger.Node) *jobset.Job {
	j := r.set.Job(n.String())
	if j == nil {
		n.Ignore()
		n.Invalid("the runtime has no job of this name")
	}
	return j
}

// patch applies one entry of runtimePatches.
func (r *reader) patch(n ledger.Node) {
	n.Get("time").Changed("", "left out: the trainer's webhook wrote it", "")
	manager := n.Get("manager")
	if strings.HasPrefix(manager.String(), managerKueue) {
		n.Changed("", "left out: Kueue wrote it when it admitted the TrainJob, and writes it again when it admits the Jobs", "")
		return
	}
	manager.Changed("", "left out: it told patches apart, which are applied once and for all now", "")
	template := n.At("trainingRuntimeSpec", "template")
	r.marks(template.Get("metadata"), &r.Labels, &r.Annotations, "each workload")
	for _, patch := range template.At("spec", "replicatedJobs").Items() {
		j := r.job(patch.Get("name"))
		if j == nil {
			continue
		}
		patch.Get("name").Carried("the pods of " + j.Name)
		r.marks(patch.At("template", "metadata"), &j.Template.Labels, &j.Template.Annotations, "the workload of "+j.Name)
		pod := patch.At("template", "spec", "template")
		r.pod(j, pod.Get("metadata"), pod.Get("spec"))
	}
}

// marks adds labels and annotations.
func (r *reader) marks(n ledger.Node, labels, annotations *map[string]string, to string) {
	for _, at := range []struct {
		name string
		into *map[string]string
	}{{"labels", labels}, {"annotations", annotations}} {
		own := n.Get(at.name)
		for key, value := range own.StringMap() {
			if *at.into == nil {
				*at.into = map[string]string{}
			}
			(*at.into)[key] = value
		}
		own.Carried(at.name + " of " + to)
	}
}

// pod lays an override over the pods of a job.
func (r *reader) pod(j *jobset.Job, meta, spec ledger.Node) {
	template := &j.Template.Spec.Template
	if meta.Exists() {
		r.marks(meta, &template.Labels, &template.Annotations, "the pods of "+j.Name)
	}
	patch, ok := r.allowed(j, spec)
	if !ok || len(patch) == 0 {
		return
	}
	before, err := json.Marshal(template.Spec)
	if err != nil {
		spec.Invalid(err.Error())
		return
	}
	text, err := json.Marshal(patch)
	if err != nil {
		spec.Invalid(err.Error())
		return
	}
	after, err := strategicpatch.StrategicMergePatch(before, text, corev1.PodSpec{})
	var next corev1.PodSpec
	if err == nil {
		err = json.Unmarshal(after, &next)
	}
	if err != nil {
		spec.Invalid("cannot be laid over the runtime's template: " + err.Error())
		return
	}
	order(next.Containers, template.Spec.Containers)
	order(next.InitContainers, template.Spec.InitContainers)
	template.Spec = next
	for _, name := range podFields {
		spec.Get(name).Carried("the pods of " + j.Name)
	}
}

// order puts containers in the order that they had: the first is the one that trains,
// and init containers run in it.
func order(now, before []corev1.Container) {
	at := func(c corev1.Container) int {
		return slices.IndexFunc(before, func(o corev1.Container) bool { return o.Name == c.Name })
	}
	slices.SortStableFunc(now, func(a, b corev1.Container) int { return at(a) - at(b) })
}

// allowed is an override without the fields that the API server prunes. It is false where
// it cannot be read.
func (r *reader) allowed(j *jobset.Job, n ledger.Node) (map[string]any, bool) {
	if !n.Exists() {
		return nil, false
	}
	var probe corev1.PodSpec
	if !n.Into(&probe) {
		return nil, false
	}
	patch := map[string]any{}
	for _, field := range n.Keys() {
		switch {
		case field == "targetJobs": // beside the fields of the pod until 2.0
			n.Get(field).Retract() // said by targets
		case !slices.Contains(podFields, field):
			pruned(n.Get(field))
		case field == "containers" || field == "initContainers":
			if list := r.containers(j, n.Get(field), field); len(list) > 0 {
				patch[field] = list
			}
		default:
			if tree := n.Get(field).Tree(); tree != nil {
				patch[field] = tree
			}
		}
	}
	return patch, true
}

// containers are the overrides of a job's containers.
func (r *reader) containers(j *jobset.Job, n ledger.Node, field string) []any {
	spec := &j.Template.Spec.Template.Spec
	have := spec.Containers
	if field == "initContainers" {
		have = spec.InitContainers
	}
	var out []any
	for _, item := range n.Items() {
		name := item.Get("name").String()
		if !slices.ContainsFunc(have, func(c corev1.Container) bool { return c.Name == name }) {
			item.Get("name").Ignore()
			item.Get("name").Invalid(fmt.Sprintf("job %s of the runtime has none of this name among its %s", j.Name, field))
			continue
		}
		one := map[string]any{}
		for _, key := range item.Keys() {
			if !slices.Contains(containerFields, key) {
				pruned(item.Get(key))
			} else if tree := item.Get(key).Tree(); tree != nil {
				one[key] = tree
			}
		}
		out = append(out, one)
		j.Variables = append(j.Variables, item.Get("env"))
	}
	return out
}

func pruned(n ledger.Node) {
	n.Retract() // said better here
	n.Changed("", "left out: an override has no such field, and the API server dropped it", "set it on the new workload if it is what you want")
}
