package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

func (l *SizeLimit) validate(r *reader, path string) {
	if l.Min != nil && l.Max != nil && *l.Min > *l.Max {
		r.add(path, "no gang satisfies min %d and max %d", *l.Min, *l.Max)
	}
}

func (l *SizeLimit) check(_ string, f facts, v *violations) {
	switch {
	case l.Max != nil && f.size > *l.Max:
		v.add(f.paths.size, f.size, "makes a gang of %s, at most %d are allowed",
			gang.FormatCount(f.size, "pod"), *l.Max).excess = float64(f.size - *l.Max)
	case l.Min != nil && f.minSize < *l.Min:
		v.add(f.paths.size, f.minSize, "makes a gang of %s, at least %d are required",
			gang.FormatCount(f.minSize, "pod"), *l.Min).excess = float64(*l.Min - f.minSize)
	}
}

func (l *GPULimit) validate(r *reader, path string) {
	for i := range l.In {
		r.checkCount(fmt.Sprintf("%s.in[%d]", path, i), &l.In[i])
	}
	if l.In != nil && len(l.In) == 0 {
		r.add(path+".in", "is empty, so no gang with accelerators satisfies it; write max: 0 to forbid accelerators")
	}
	if l.Max != nil && *l.Max > 0 && l.MultipleOf > *l.Max {
		r.add(path, "no gang with accelerators satisfies multipleOf %d and max %d", l.MultipleOf, *l.Max)
	}
	isAllowed := func(n int64) bool {
		return (l.Max == nil || n <= *l.Max) && (l.MultipleOf == 0 || n%l.MultipleOf == 0)
	}
	if len(l.In) > 0 && !slices.ContainsFunc(l.In, isAllowed) {
		r.add(path, "no number in the list satisfies max and multipleOf")
	}
}

func (l *GPULimit) check(_ string, f facts, v *violations) {
	makes := "makes a gang of " + formatGPUs(f)
	isTooLarge := len(l.In) > 0 && f.gpus > slices.Max(l.In)
	switch {
	case l.Max != nil && f.gpus > *l.Max:
		if f.gpus == f.pods*f.gpusPerPod { // those of its own pods
			makes += fmt.Sprintf(" (%s x %d)", gang.FormatCount(f.pods, "pod"), f.gpusPerPod)
		}
		v.add(f.paths.size, f.pods, "%s, at most %d are allowed; %s", makes, *l.Max, suggestPods(f, *l.Max)).
			excess = float64(f.gpus - *l.Max)
	case f.gpusUnknown && !isTooLarge:
		v.add(f.paths.gpus, "", "the accelerators of the other members or of the resource claims are not known yet").
			Unknown = true
	case f.gpus == 0:
	case l.MultipleOf > 0 && f.gpus%l.MultipleOf != 0 && !f.gpusUnknown:
		v.add(f.paths.size, f.pods, "%s, a multiple of %d is required, such as %d",
			makes, l.MultipleOf, f.gpus-f.gpus%l.MultipleOf+l.MultipleOf)
	case len(l.In) > 0 && !slices.Contains(l.In, f.gpus):
		v.add(f.paths.size, f.pods, "%s, allowed are %s", makes, joinNames(l.In))
	}
}

// suggestPods returns the largest number of pods with at most maxGPUs accelerators in the gang.
func suggestPods(f facts, maxGPUs int64) string {
	ofOthers := f.gpus - f.pods*f.gpusPerPod
	own := maxGPUs - ofOthers
	switch {
	case maxGPUs == 0:
		return "remove the accelerators"
	case f.gpusPerPod == 0 || own <= 0:
		return "use fewer in the other members"
	case own < f.gpusPerPod:
		return fmt.Sprintf("use at most %d in a single pod", own)
	}
	return "use at most " + gang.FormatCount(own/f.gpusPerPod, "pod")
}

// formatGPUs returns a number of accelerators for messages.
func formatGPUs(f facts) string {
	if f.gpusUnknown {
		return "at least " + gang.FormatCount(f.gpus, "accelerator")
	}
	return gang.FormatCount(f.gpus, "accelerator")
}

// joinNames lists values for messages.
func joinNames[T any](values []T) string {
	names := make([]string, 0, len(values))
	for _, v := range values {
		names = append(names, fmt.Sprint(v))
	}
	return strings.Join(names, ", ")
}

func (l *WholeNodesLimit) validate(r *reader, path string) {
	if l.GPUsPerNode == 0 {
		r.add(path+".gpusPerNode", "is required: the number of accelerators of a node")
	}
}

func (l *WholeNodesLimit) check(_ string, f facts, v *violations) {
	from := ptr.Deref(l.FromPods, 2)
	if f.size < from || f.gpusPerPod == 0 || f.gpusPerPod == l.GPUsPerNode {
		return
	}
	inPods := ""
	if f.gpus%l.GPUsPerNode == 0 && !f.gpusUnknown {
		inPods = " in " + gang.FormatCount(f.gpus/l.GPUsPerNode, "pod")
	}
	v.add(f.paths.gpus, f.gpusPerPod, "each pod has %s, and a gang of %d or more pods must use nodes as a whole; "+
		"request %d%s", gang.FormatCount(f.gpusPerPod, "accelerator"), from, l.GPUsPerNode, inPods)
}

func (l *GPUHoursLimit) check(_ string, f facts, v *violations) {
	path := specPath.Child("activeDeadlineSeconds").String()
	if f.gangRuntime == nil {
		switch {
		case f.gpus == 0:
		case f.endsWithout && !f.membersKnown && f.Workload.Kind() != gang.Job:
			v.add(path, "", "the maximum runtime of the Job that ends the gang is not known yet").Unknown = true
		default:
			v.add(path, "", "is required, because a gang with accelerators may use at most %s; set at most %d",
				gang.FormatCount(l.Max, "GPU-hour"), l.longestRuntime(f))
		}
		return
	}
	used := float64(f.gpus) * f.gangRuntime.Hours() * float64(f.attempts())
	switch {
	case used > float64(l.Max):
		attempts := ""
		if f.attempts() > 1 {
			attempts = fmt.Sprintf(" in each of %d attempts", f.attempts())
		}
		v.add(path, int64(f.gangRuntime.Seconds()),
			"allows %.0f GPU-hours (%s for %s%s), at most %d are allowed; set at most %d",
			used, formatGPUs(f), formatDuration(*f.gangRuntime), attempts, l.Max, l.longestRuntime(f)).
			excess = used - float64(l.Max)
	case f.gpusUnknown:
		v.add(path, "", "the accelerators of the other members or of the resource claims are not known yet").Unknown = true
	}
}

// longestRuntime returns the longest allowed runtime of an attempt in seconds.
func (l *GPUHoursLimit) longestRuntime(f facts) int64 {
	return l.Max * int64(time.Hour/time.Second) / max(f.gpus, 1) / f.attempts()
}

// attempts returns the largest number of attempts of the gang, without those after a disruption. Each attempt has the
// maximum runtime.
func (f facts) attempts() int64 {
	if f.Gang.RestartRules.RestartPolicy != gang.RestartPolicyGang {
		return 1
	}
	return 1 + f.restarts
}

func (l *DurationLimit) validate(r *reader, path string) {
	if l.Min != nil && l.Max != nil && l.Min.value > l.Max.value && l.Max.err == nil {
		r.add(path, "no gang satisfies min %s and max %s", l.Min, l.Max)
	}
}

// check compares a field of a Job with the limit: that of the maximum runtime or that of the TTL.
func (l *DurationLimit) check(key string, f facts, v *violations) {
	path, purpose, value := "spec.activeDeadlineSeconds", "maximum runtime", f.runtime
	if key == "ttl" {
		path, purpose, value = "spec.ttlSecondsAfterFinished", "time until deletion after the end", f.ttl
	}
	switch {
	case value == nil && l.Required:
		l.checkRequired(path, purpose, f, v)
	case value == nil:
	case l.Max != nil && *value > l.Max.value:
		v.add(path, int64(value.Seconds()), "makes the %s %s, at most %s is allowed; set at most %d", purpose,
			formatDuration(*value), l.Max, int64(l.Max.value.Seconds())).excess = (*value - l.Max.value).Seconds()
	case l.Min != nil && *value < l.Min.value:
		v.add(path, int64(value.Seconds()), "makes the %s %s, at least %s is required; set at least %d", purpose,
			formatDuration(*value), l.Min, int64(l.Min.value.Seconds())).excess = (l.Min.value - *value).Seconds()
	}
}

// checkRequired adds the violation of a workload without a required duration. A StatefulSet cannot have a duration. The
// members that the gang ends with are judged instead, if there are others.
func (l *DurationLimit) checkRequired(path, purpose string, f facts, v *violations) {
	switch {
	case f.Workload.Kind() == gang.Job && l.Max != nil:
		v.add(path, "", "is required: the %s in seconds, at most %d (%s)", purpose, int64(l.Max.value.Seconds()), l.Max)
	case f.Workload.Kind() == gang.Job:
		v.add(path, "", "is required: the %s in seconds", purpose)
	case !f.endsWithout:
		v.add("kind", f.Workload.Kind(), "a %s has no %s, which is required; use a Job", f.Workload.Kind(), purpose)
	case !f.membersKnown:
		v.add("kind", "", "the Job that ends the gang must have a %s, and is not known yet", purpose).Unknown = true
	}
}

// restartPolicies are the values of the annotation [gang.AnnotationRestartPolicy].
var restartPolicies = []gang.RestartPolicy{gang.RestartPolicyGang, gang.RestartPolicyPod, gang.RestartPolicyNever}

func (l *RestartsLimit) validate(r *reader, path string) {
	for i, policy := range l.Policies {
		if !slices.Contains(restartPolicies, policy) {
			r.add(fmt.Sprintf("%s.policies[%d]", path, i), "%q is not a restart policy; use gang, pod or never", policy)
		}
	}
}

func (l *RestartsLimit) check(_ string, f facts, v *violations) {
	if l.Max != nil && f.restarts > *l.Max {
		v.add(f.paths.restarts, f.restarts, "allows %s of the gang, at most %d are allowed; set %s: \"%d\"",
			gang.FormatCount(f.restarts, "restart"), *l.Max, gang.AnnotationMaxRestarts, *l.Max).
			excess = float64(f.restarts - *l.Max)
	}
	used := f.Gang.RestartRules.RestartPolicy
	if len(l.Policies) > 0 && !slices.Contains(l.Policies, used) {
		v.add(annotationsPath.Key(gang.AnnotationRestartPolicy).String(), used,
			"%s is not allowed as the restart policy; allowed are %s", used, joinNames(l.Policies))
	}
}

func (l *DisruptionsLimit) check(_ string, f facts, v *violations) {
	if l.Max == nil || f.disruptions <= *l.Max {
		return
	}
	count, text := formatInt(f.disruptions), gang.FormatCount(f.disruptions, "disruption")
	if f.disruptions == unlimitedDisruptions {
		count, text = "unlimited", "unlimited disruptions"
	}
	v.add(annotationsPath.Key(gang.AnnotationMaxDisruptions).String(), count,
		"allows %s of the gang, at most %d are allowed; set %s: \"%d\"",
		text, *l.Max, gang.AnnotationMaxDisruptions, *l.Max).excess = float64(f.disruptions - *l.Max)
}

func (l *FrameworksLimit) validate(r *reader, path string) {
	for i, name := range l.Allow {
		r.checkFramework(fmt.Sprintf("%s.allow[%d]", path, i), name)
		if slices.Contains(l.Deny, name) {
			r.add(fmt.Sprintf("%s.allow[%d]", path, i), "%s is also in deny", name)
		}
	}
	for i, name := range l.Deny {
		r.checkFramework(fmt.Sprintf("%s.deny[%d]", path, i), name)
	}
}

func (l *FrameworksLimit) check(_ string, f facts, v *violations) {
	path := labelsPath.Key(gang.LabelFramework).String()
	switch {
	case len(l.Allow) > 0 && !slices.Contains(l.Allow, f.Gang.Framework.Name):
		v.add(path, f.Gang.Framework.Name, "is not allowed; allowed are %s", joinNames(l.Allow))
	case slices.Contains(l.Deny, f.Gang.Framework.Name):
		v.add(path, f.Gang.Framework.Name, "is not allowed; use any framework except %s", joinNames(l.Deny))
	}
}

func (l *LabelsLimit) validate(r *reader, path string) {
	l.patterns = map[string]*regexp.Regexp{}
	for _, label := range slices.Sorted(maps.Keys(l.Require)) {
		labelPath := fmt.Sprintf("%s.require[%s]", path, label)
		r.checkLabelName(labelPath, label)
		l.patterns[label] = r.compilePattern(labelPath, l.Require[label])
		if slices.Contains(l.Forbid, label) {
			r.add(labelPath, "is required and forbidden")
		}
	}
	for i, label := range l.Forbid {
		r.checkLabelName(fmt.Sprintf("%s.forbid[%d]", path, i), label)
	}
}

func (l *LabelsLimit) check(_ string, f facts, v *violations) {
	for _, label := range slices.Sorted(maps.Keys(l.Require)) {
		value, ok := f.Workload.Meta().Labels[label]
		switch pattern := l.patterns[label]; {
		case !ok:
			v.add(labelsPath.Key(label).String(), "", "is required; the value must match %s", l.Require[label])
		case pattern != nil && !pattern.MatchString(value):
			v.add(labelsPath.Key(label).String(), value, "must match %s", l.Require[label])
		}
	}
	for _, label := range l.Forbid {
		if value, ok := f.Workload.Meta().Labels[label]; ok {
			v.add(labelsPath.Key(label).String(), value, "is forbidden; remove the label")
		}
	}
}

// check compares a name with the limit: the priority class or the queue.
func (l *NameLimit) check(key string, f facts, v *violations) {
	path, purpose, names := labelsPath.Key(gang.LabelQueueName).String(), "queue", f.queues()
	if key == "priorityClass" {
		path, purpose, names = podSpecPath.Child("priorityClassName").String(), "priority class", nil
		if value := f.priorityClass(); value != "" {
			names = []fieldFact{{path, value}}
		}
	}
	switch {
	case len(names) == 0 && l.Required && len(l.Allow) > 0:
		v.add(path, "", "is required: the %s; allowed are %s", purpose, joinNames(l.Allow))
	case len(names) == 0 && l.Required:
		v.add(path, "", "is required: the %s", purpose)
	}
	for _, name := range names {
		if len(l.Allow) > 0 && !slices.Contains(l.Allow, name.value) {
			v.add(name.path, name.value, "is not allowed as the %s; allowed are %s", purpose, joinNames(l.Allow))
		}
	}
}

// nvidiaVisibleDevices is the variable from which the NVIDIA container runtime reads the devices of a
// container (NVIDIA Container Toolkit documentation, environment variables). The device plugin sets
// it in containers that requested accelerators. A value in the pod takes precedence.
const nvidiaVisibleDevices = "NVIDIA_VISIBLE_DEVICES"

// check adds the variables that expose accelerators. A resource claim does not permit them, because its driver does not
// need the variable, and the claim can be for another device.
func (l *HiddenGPUsLimit) check(_ string, f facts, v *violations) {
	const consequence = "accelerators that the container does not request; remove it, and request them in resources.limits"
	visitContainers(f.Workload.Template().Spec, func(path *field.Path, c corev1.Container) {
		for i, e := range c.Env {
			switch path := path.Child("env").Index(i); {
			case e.Name != nvidiaVisibleDevices:
			case e.ValueFrom != nil:
				v.add(path.Child("valueFrom").String(), "", "%s can expose %s", e.Name, consequence)
			case !slices.Contains([]string{"", "none", "void"}, e.Value):
				v.add(path.Child("value").String(), e.Value, "%s exposes %s", e.Name, consequence)
			}
		}
	})
}

// checkLabelName reports a name that no label can have.
func (r *reader) checkLabelName(path, name string) {
	for _, message := range validation.IsQualifiedName(name) {
		r.add(path, "is not the name of a label: %s", message)
	}
}
