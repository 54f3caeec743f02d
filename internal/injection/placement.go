package injection

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Names of the values of kind [kindPodField].
const (
	podFieldSchedulerName   = "schedulerName"
	podFieldSchedulingGroup = "schedulingGroup"
)

// readPodField returns a field of the pod. The default of the API server is not a value.
func (p *podTemplate) readPodField(k key) any {
	spec, value := &p.template.Spec, ""
	switch {
	case k.name == podFieldSchedulerName && spec.SchedulerName != corev1.DefaultSchedulerName:
		value = spec.SchedulerName
	case k.name == podFieldSchedulingGroup && spec.SchedulingGroup != nil:
		value = ptr.Deref(spec.SchedulingGroup.PodGroupName, "")
	}
	if value == "" {
		return nil
	}
	return value
}

func (p *podTemplate) removePodField(k key) { p.setPodField(k.name, "") }

// setPodField sets a field of the pod. An empty value is the default of the API server.
func (p *podTemplate) setPodField(name, value string) {
	spec := &p.template.Spec
	switch {
	case name == podFieldSchedulerName && value == "":
		spec.SchedulerName = corev1.DefaultSchedulerName
	case name == podFieldSchedulerName:
		spec.SchedulerName = value
	case value == "":
		spec.SchedulingGroup = nil
	default:
		spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &value}
	}
}

// WithoutOwnPlacement returns a workload whose pods do not have the labels, annotations and fields that an earlier
// admission set and nobody has edited since. Parsing would read them as those of the user, for example a queue in a
// copy of a live object. It returns w itself if there is nothing to remove, and a copy otherwise.
func WithoutOwnPlacement(w gang.Workload) gang.Workload {
	record, err := ReadRecord(w)
	if err != nil || record == nil {
		return w
	}
	maps.DeleteFunc(record.Values, func(text, _ string) bool {
		k, _ := parseKey(text)
		return k.kind != kindLabel && k.kind != kindAnnotation && k.kind != kindPodField
	})
	if len(record.Values) == 0 {
		return w // without the indexes of a podTemplate, which can be larger than the record
	}
	view := w.DeepCopy()
	pod := newPodTemplate(view.Template())
	own, _ := record.findUnmodified(newDigester(pod))
	for k := range own {
		targets[k.kind].remove(pod, k)
	}
	return view
}

// applyPlacement sets what the pods need from their scheduler. A value of the user stays, with a warning.
func (a *applier) applyPlacement() {
	a.applyPodField(podFieldSchedulerName, a.plan.SchedulerName, "schedulerName")
	a.applyPodField(podFieldSchedulingGroup, a.plan.SchedulingGroup, "schedulingGroup", "podGroupName")
}

func (a *applier) applyPodField(name, planned string, path ...string) {
	if planned == "" {
		return
	}
	existing := a.pod.readPodField(key{name: name})
	relation := relate(existing != nil, a.owns(kindPodField, "", name), existing == planned)
	switch o := decide(relation, plan.Warn); o {
	case write:
		a.pod.setPodField(name, planned)
		a.markApplied(kindPodField, "", name)
	default:
		a.remark(o, templatePath.Child("spec", path...), "keeping your value %q; Rollcall would set %q", existing, planned)
	}
}
