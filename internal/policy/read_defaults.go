package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/plan"
)

// defaultAnnotations are the annotations of Rollcall that can have a default. The others determine the
// identity of the gang: its size, ranks and accelerators.
var defaultAnnotations = []string{
	gang.AnnotationRestartPolicy, gang.AnnotationNonRetriableExitCodes, gang.AnnotationSuccessPolicy,
	gang.AnnotationCleanPodPolicy, gang.AnnotationStartTimeout, gang.AnnotationShmSize,
}

// requiredVariables returns the variables that determine the ranks. Injectors set them, and Rollcall denies
// every other value.
var requiredVariables = sync.OnceValue(func() map[string]bool {
	required := map[string]bool{}
	registry := injectors.Builtin()
	for _, name := range registry.Frameworks().Names() {
		variables, err := registry.Variables(name)
		if err != nil {
			continue // impossible for a name of the registry
		}
		for _, v := range variables {
			required[v.Name] = required[v.Name] || v.Policy == plan.Required
		}
	}
	return required
})

// validateDefaults reports the mistakes of defaults in themselves.
func (r *reader) validateDefaults(path string, d Defaults) {
	for key, v := range map[string]*DefaultValue[Duration]{"runtime": d.Runtime, "ttl": d.TTL} {
		if v != nil && v.Value.err != nil {
			r.add(path+key, "%v", v.Value.err)
		} else if v != nil && v.err != nil {
			r.add(path+key, "%v", v.err)
		}
	}
	if v := d.Restarts; v != nil && (v.err != nil || v.Value < 0 || v.Value > gang.MaxRestarts) {
		r.add(path+"restarts", "must be a whole number from 0 to %d", gang.MaxRestarts)
	}
	for key, v := range map[string]*DefaultValue[string]{"queue": d.Queue, "priorityClass": d.PriorityClass} {
		if v != nil && v.err != nil {
			r.add(path+key, "%v", v.err)
		} else if v != nil && len(validation.IsDNS1123Subdomain(v.Value)) > 0 {
			r.add(path+key, "%q is not a name", v.Value)
		}
	}
	for _, m := range d.maps() {
		for name, v := range m.values {
			fieldPath := fmt.Sprintf("%s%s[%s]", path, m.key, name)
			if v.err != nil {
				r.add(fieldPath, "%v", v.err)
				continue
			}
			r.validateNamedDefault(fieldPath, m.kind, name, v.Value)
		}
	}
	for i, t := range d.Tolerations {
		r.validateToleration(fmt.Sprintf("%stolerations[%d]", path, i), t)
	}
}

func (r *reader) validateNamedDefault(path string, kind plan.DefaultKind, name, value string) {
	switch kind {
	case plan.DefaultEnv:
		if len(validation.IsEnvVarName(name)) > 0 {
			r.add(path, "is not the name of a variable")
		}
		if requiredVariables()[name] || strings.HasPrefix(name, "ROLLCALL_") {
			r.add(path, "determines the ranks, so Rollcall sets it; remove the default")
		}
		return
	case plan.DefaultResource:
		r.validateResource(path, name, value)
		return
	}
	r.checkLabelName(path, name)
	if kind == plan.DefaultLabel || kind == plan.DefaultNodeSelector {
		for _, message := range validation.IsValidLabelValue(value) {
			r.add(path, "%q: %s", value, message)
		}
	}
	isOurs := strings.HasPrefix(name, gang.Prefix)
	switch {
	case kind == plan.DefaultLabel && name == gang.LabelQueueName:
		r.add(path, "write queue: %s", value)
	case name == gang.AnnotationMaxRestarts:
		r.add(path, "write restarts: %s", value)
	case isOurs && !(kind == plan.DefaultAnnotation && slices.Contains(defaultAnnotations, name)):
		r.add(path, "cannot have a default, because it can determine the size or the ranks of the gang; "+
			"annotations of Rollcall with a default are %s", joinNames(defaultAnnotations))
	}
}

func (r *reader) validateResource(path, name, value string) {
	quantity, err := resource.ParseQuantity(value)
	if err != nil || quantity.Sign() <= 0 {
		r.add(path, "%q is not a quantity above 0", value)
		return
	}
	isExtended := strings.Contains(name, "/") && len(validation.IsQualifiedName(name)) == 0
	isHugePage := strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	list := corev1.ResourceList{corev1.ResourceName(name): quantity}
	switch {
	case gang.CountAccelerators(corev1.ResourceRequirements{Limits: list}) > 0:
		r.add(path, "is an accelerator, and only the user determines how many the gang uses")
	case !isExtended && !isHugePage:
		r.add(path, "must be an extended resource such as rdma/hca, or huge pages; use a LimitRange for cpu and memory")
	}
}

func (r *reader) validateToleration(path string, t corev1.Toleration) {
	if t.Operator != "" && t.Operator != corev1.TolerationOpExists && t.Operator != corev1.TolerationOpEqual {
		r.add(path+".operator", "%q is not an operator; use Exists or Equal", t.Operator)
	}
	effects := []corev1.TaintEffect{
		"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	}
	if !slices.Contains(effects, t.Effect) {
		r.add(path+".effect", "%q is not an effect; use NoSchedule, PreferNoSchedule or NoExecute", t.Effect)
	}
	if t.Key == "" {
		r.add(path+".key", "is required; a toleration of every taint would place gangs on any node")
	}
	if t.Operator == corev1.TolerationOpExists && t.Value != "" {
		r.add(path+".value", "must be empty with the operator Exists")
	}
}

// adviseDefaults compares the defaults of a scope with the limits that hold for the same gangs.
func (r *reader) adviseDefaults(path string, d Defaults, limits Limits, limitsPath string) {
	check := func(key, limitKey string, l limit, f Facts, isLocked bool) {
		f.Kind = gang.Job
		for _, v := range l.check(f) {
			r.add(path+"defaults."+key, "violates %slimits.%s: %s. Every gang without an own value would be denied",
				limitsPath, limitKey, v.message)
			return
		}
		if isLocked && limitsPath == path && r.allowsOthers(limits, limitKey) {
			r.advise(path+"limits."+limitKey, "defaults.%s is locked, so no other value can be used", key)
		}
	}
	if v, l := d.Runtime, limits.Runtime; v != nil && l != nil {
		check("runtime", "runtime", runtimeLimit{l}, Facts{Runtime: &v.Value.value}, v.Locked)
	}
	if v, l := d.TTL, limits.TTL; v != nil && l != nil {
		check("ttl", "ttl", ttlLimit{l}, Facts{TTL: &v.Value.value}, v.Locked)
	}
	if v, l := d.Restarts, limits.Restarts; v != nil && l != nil {
		bound := &RestartsLimit{Max: l.Max}
		check("restarts", "restarts", bound, Facts{Restarts: v.Value}, v.Locked)
	}
	if v, l := d.Queue, limits.Queue; v != nil && l != nil {
		check("queue", "queue", queueLimit{l}, Facts{Queue: v.Value}, v.Locked)
	}
	if v, l := d.PriorityClass, limits.PriorityClass; v != nil && l != nil {
		check("priorityClass", "priorityClass", priorityClassLimit{l}, Facts{PriorityClass: v.Value}, v.Locked)
	}
	if l := limits.Labels; l != nil {
		for name, v := range d.Labels {
			if pattern := l.patterns[name]; pattern != nil {
				required := &LabelsLimit{Require: map[string]string{name: l.Require[name]}, patterns: l.patterns}
				check("labels["+name+"]", "labels", required, Facts{Labels: map[string]string{name: v.Value}}, false)
			}
		}
	}
}

// allowsOthers reports whether a limit allows more than one value.
func (r *reader) allowsOthers(l Limits, key string) bool {
	switch key {
	case "queue":
		return len(l.Queue.Allow) != 1
	case "priorityClass":
		return len(l.PriorityClass.Allow) != 1
	}
	return true
}

// adviseRestarts reports a limit that denies every gang without an own number of restarts.
func (r *reader) adviseRestarts(path string, mode Mode, limits Limits, defaults ...Defaults) {
	l := limits.Restarts
	hasDefault := slices.ContainsFunc(defaults, func(d Defaults) bool { return d.Restarts != nil })
	if l == nil || l.Max == nil || *l.Max >= gang.DefaultMaxRestarts || hasDefault ||
		defaultMode(l.Mode, defaultMode(mode, ModeEnforce)) != ModeEnforce {
		return
	}
	r.advise(path+"limits.restarts.max", "a gang without an own value has %d restarts, and would be denied; "+
		"add defaults.restarts: %d", gang.DefaultMaxRestarts, *l.Max)
}

// checkLockedByCluster reports defaults of a profile that differ from a locked default of the cluster.
func (r *reader) checkLockedByCluster(path string, cluster, profile Defaults) {
	for _, locked := range cluster.list(ClusterScope) {
		for _, d := range profile.list("") {
			isSame := d.Kind == locked.Kind && d.Name == locked.Name
			if locked.locked && isSame && d.Value != locked.Value && d.Kind != plan.DefaultToleration {
				r.add(path+"defaults."+d.key, "must be %q, which the cluster locks", locked.Value)
			}
		}
	}
}
