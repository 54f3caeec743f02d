package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
	"rollcall.training/plan"
)

// defaultAnnotations are the annotations of Rollcall that can have a default. The others determine the
// identity of the gang: its size, ranks and accelerators.
var defaultAnnotations = []string{
	gang.AnnotationRestartPolicy, gang.AnnotationNonRetriableExitCodes, gang.AnnotationSuccessPolicy,
	gang.AnnotationCleanPodPolicy, gang.AnnotationStartTimeout, gang.AnnotationShmSize,
	gang.AnnotationPublishedRanks,
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
	r.checkMode(path+"mode", d.Mode)
	r.validateDurationDefault(path+"runtime", d.Runtime)
	r.validateDurationDefault(path+"ttl", d.TTL)
	for key, v := range map[string]*DefaultValue[int64]{"restarts": d.Restarts, "disruptions": d.Disruptions} {
		if v != nil && (v.err != nil || v.Value < 0 || v.Value > gang.MaxRestarts) {
			r.add(path+key, "must be a whole number from 0 to %d", gang.MaxRestarts)
		}
	}
	r.validateNameDefault(path+"queue", d.Queue)
	r.validateNameDefault(path+"priorityClass", d.PriorityClass)
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

func (r *reader) validateDurationDefault(path string, v *DefaultValue[Duration]) {
	if v == nil {
		return
	}
	if err := errors.Join(v.err, v.Value.err); err != nil {
		r.add(path, "%v", err)
	}
}

func (r *reader) validateNameDefault(path string, v *DefaultValue[string]) {
	switch {
	case v == nil:
	case v.err != nil:
		r.add(path, "%v", v.err)
	case len(validation.IsDNS1123Subdomain(v.Value)) > 0:
		r.add(path, "%q is not a name", v.Value)
	}
}

func (r *reader) validateNamedDefault(path string, kind injection.DefaultKind, name, value string) {
	switch kind {
	case injection.DefaultEnv:
		if len(validation.IsEnvVarName(name)) > 0 {
			r.add(path, "is not the name of a variable")
		}
		if requiredVariables()[name] || strings.HasPrefix(name, "ROLLCALL_") {
			r.add(path, "determines the ranks, so Rollcall sets it; remove the default")
		}
		return
	case injection.DefaultResource:
		r.validateResource(path, name, value)
		return
	}
	r.checkLabelName(path, name)
	if kind == injection.DefaultLabel || kind == injection.DefaultNodeSelector {
		for _, message := range validation.IsValidLabelValue(value) {
			r.add(path, "%q: %s", value, message)
		}
	}
	r.validateOwnKey(path, kind, name, value)
}

// validateOwnKey reports a default for a key of Rollcall that has another form in the policy, or that cannot have one.
func (r *reader) validateOwnKey(path string, kind injection.DefaultKind, name, value string) {
	isOurs := strings.HasPrefix(name, gang.Prefix)
	switch {
	case kind == injection.DefaultLabel && name == gang.LabelQueueName:
		r.add(path, "write queue: %s", value)
	case name == gang.AnnotationMaxRestarts:
		r.add(path, "write restarts: %s", value)
	case name == gang.AnnotationMaxDisruptions:
		r.add(path, "write disruptions: %s", value)
	case isOurs && (kind != injection.DefaultAnnotation || !slices.Contains(defaultAnnotations, name)):
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
	for _, c := range d.listLimited(limits) {
		c.facts.Kind = gang.Job
		violations := c.limit.check(c.facts)
		if len(violations) > 0 {
			r.add(path+"defaults."+c.path, "violates %slimits.%s: %s. Every gang without an own value would be denied",
				limitsPath, c.key, violations[0].message)
			continue
		}
		if c.isLocked && limitsPath == path && limits.allowsOthers(c.key) {
			r.advise(path+"limits."+c.key, "defaults.%s is locked, so no other value can be used", c.path)
		}
	}
}

// limitedDefault is a default, the limit of the same field, and the facts of a gang with the default.
type limitedDefault struct {
	path, key string
	limit     limit
	facts     Facts
	isLocked  bool
}

// listLimited returns the defaults of which the limits have a limit.
func (d Defaults) listLimited(limits Limits) []limitedDefault {
	var list []limitedDefault
	add := func(key string, isBoth bool, newDefault func() limitedDefault) {
		if isBoth {
			limited := newDefault()
			limited.path, limited.key = key, key
			list = append(list, limited)
		}
	}
	add("runtime", d.Runtime != nil && limits.Runtime != nil, func() limitedDefault {
		facts := Facts{Runtime: &d.Runtime.Value.value}
		return limitedDefault{limit: runtimeLimit{limits.Runtime}, facts: facts, isLocked: d.Runtime.Locked}
	})
	add("ttl", d.TTL != nil && limits.TTL != nil, func() limitedDefault {
		return limitedDefault{limit: ttlLimit{limits.TTL}, facts: Facts{TTL: &d.TTL.Value.value}, isLocked: d.TTL.Locked}
	})
	add("restarts", d.Restarts != nil && limits.Restarts != nil, func() limitedDefault {
		bound := &RestartsLimit{Max: limits.Restarts.Max} // the default is not about policies
		return limitedDefault{limit: bound, facts: Facts{Restarts: d.Restarts.Value}, isLocked: d.Restarts.Locked}
	})
	add("disruptions", d.Disruptions != nil && limits.Disruptions != nil, func() limitedDefault {
		facts := Facts{Disruptions: d.Disruptions.Value}
		return limitedDefault{limit: limits.Disruptions, facts: facts, isLocked: d.Disruptions.Locked}
	})
	add("queue", d.Queue != nil && limits.Queue != nil, func() limitedDefault {
		return limitedDefault{limit: queueLimit{limits.Queue}, facts: Facts{Queue: d.Queue.Value}, isLocked: d.Queue.Locked}
	})
	add("priorityClass", d.PriorityClass != nil && limits.PriorityClass != nil, func() limitedDefault {
		facts := Facts{PriorityClass: d.PriorityClass.Value}
		return limitedDefault{
			limit: priorityClassLimit{limits.PriorityClass}, facts: facts, isLocked: d.PriorityClass.Locked,
		}
	})
	return append(list, d.listLimitedLabels(limits.Labels)...)
}

// listLimitedLabels returns the default labels of which the limit requires a pattern.
func (d Defaults) listLimitedLabels(l *LabelsLimit) []limitedDefault {
	if l == nil {
		return nil
	}
	var list []limitedDefault
	for _, name := range slices.Sorted(maps.Keys(d.Labels)) {
		if l.patterns[name] != nil {
			required := &LabelsLimit{Require: map[string]string{name: l.Require[name]}, patterns: l.patterns}
			facts := Facts{Labels: map[string]string{name: d.Labels[name].Value}}
			list = append(list, limitedDefault{path: "labels[" + name + "]", key: "labels", limit: required, facts: facts})
		}
	}
	return list
}

// allowsOthers reports whether a limit allows more than one value.
func (l Limits) allowsOthers(key string) bool {
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
		cmp.Or(l.Mode, mode, ModeEnforce) != ModeEnforce {
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
			if locked.locked && isSame && d.Value != locked.Value && d.Kind != injection.DefaultToleration {
				r.add(path+"defaults."+d.key, "must be %q, which the cluster locks", locked.Value)
			}
		}
	}
}
