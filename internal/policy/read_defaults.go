package policy

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy/defaults"
	"rollcall.training/plan"
)

// defaultAnnotations are the annotations of Rollcall that can have a default. The others determine the
// identity of the gang: its size, ranks and accelerators.
var defaultAnnotations = []string{
	gang.AnnotationRestartPolicy, gang.AnnotationNonRetriableExitCodes, gang.AnnotationSuccessPolicy,
	gang.AnnotationCleanPodPolicy, gang.AnnotationStartTimeout, gang.AnnotationScheduleTimeout,
	gang.AnnotationShmSize, gang.AnnotationScheduler, gang.AnnotationPublishedRanks, gang.AnnotationRestartOnNodeLoss,
	gang.AnnotationAvoidNodes, gang.AnnotationTopology,
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
	for _, v := range d.list("") {
		if v.err != nil {
			r.add(path+v.path, "%v", v.err)
		} else if _, isText := v.shown.(string); isText {
			r.validateTextDefault(path+v.path, v)
		} else if t, ok := v.shown.(corev1.Toleration); ok {
			r.validateToleration(path+v.path, t)
		}
	}
}

func (r *reader) validateTextDefault(path string, d fieldDefault) {
	switch d.Kind {
	case defaults.Queue, defaults.PriorityClass:
		if len(validation.IsDNS1123Subdomain(d.Value)) > 0 {
			r.add(path, "%q is not a name", d.Value)
		}
	case defaults.Env:
		if len(validation.IsEnvVarName(d.Name)) > 0 {
			r.add(path, "is not the name of a variable")
		}
		if requiredVariables()[d.Name] || strings.HasPrefix(d.Name, "ROLLCALL_") {
			r.add(path, "determines the ranks, so Rollcall sets it; remove the default")
		}
	case defaults.Resource:
		r.validateResource(path, d.Name, d.Value)
	default:
		r.checkLabelName(path, d.Name)
		if d.Kind == defaults.Label || d.Kind == defaults.NodeSelector {
			for _, message := range validation.IsValidLabelValue(d.Value) {
				r.add(path, "%q: %s", d.Value, message)
			}
		}
		r.validateOwnKey(path, d)
	}
}

// validateOwnKey reports a default for a key of Rollcall that has another form in the policy, or that cannot have one.
func (r *reader) validateOwnKey(path string, d fieldDefault) {
	isOurs := strings.HasPrefix(d.Name, gang.Prefix)
	switch {
	case d.Kind == defaults.Label && d.Name == gang.LabelQueueName:
		r.add(path, "write queue: %s", d.Value)
	case d.Name == gang.AnnotationMaxRestarts:
		r.add(path, "write restarts: %s", d.Value)
	case d.Name == gang.AnnotationMaxDisruptions:
		r.add(path, "write disruptions: %s", d.Value)
	case isOurs && (d.Kind != defaults.Annotation || !slices.Contains(defaultAnnotations, d.Name)):
		r.add(path, "cannot have a default, because it can determine the size or the ranks of the gang; "+
			"annotations of Rollcall with a default are %s", strings.Join(defaultAnnotations, ", "))
	}
}

func (r *reader) validateResource(path, name, value string) {
	quantity, err := gang.ParseQuantity(value)
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

// adviseDefaults compares the defaults of a scope with the limits of the same fields.
func (r *reader) adviseDefaults(path string, d Defaults, limits Limits, limitsPath string) {
	for _, v := range d.list("") {
		key := v.key
		if v.Kind == defaults.Label {
			key = "labels"
		}
		for _, l := range limits.list() {
			if l.key != key {
				continue
			}
			var found violations
			l.check(l.key, v.newFacts(), &found)
			if i := slices.IndexFunc(found, v.isLimitedBy(l.limit)); i >= 0 {
				r.add(path+"defaults."+v.path, "violates %slimits.%s: %s. Every gang without an own value would be denied",
					limitsPath, key, found[i].Message)
			}
		}
	}
}

// newFacts returns the facts of a Job that has the default and nothing else.
func (d fieldDefault) newFacts() facts {
	job := &batchv1.Job{}
	f := facts{Member: Member{Workload: gang.Workload{Job: job}}}
	switch value := d.shown.(type) {
	case Duration:
		f.runtime, f.ttl = &value.value, &value.value
	case int64:
		f.restarts, f.disruptions = value, value
	case string:
		job.Spec.Template.Spec.PriorityClassName = value
		job.Labels = map[string]string{cmp.Or(d.Name, gang.LabelQueueName): value}
	}
	return f
}

// isLimitedBy returns whether a violation of a limit is about the default: not about another label, nor about the
// restart policy.
func (d fieldDefault) isLimitedBy(l limit) func(Finding) bool {
	return func(f Finding) bool {
		switch l := l.(type) {
		case *LabelsLimit:
			return l.patterns[d.Name] != nil && f.Field == labelsPath.Key(d.Name).String()
		case *RestartsLimit:
			return f.excess > 0
		}
		return true
	}
}

// adviseRestarts reports a limit that denies every gang without an own number of restarts.
func (r *reader) adviseRestarts(path string, mode Mode, limits Limits, list ...Defaults) {
	l := limits.Restarts
	hasDefault := slices.ContainsFunc(list, func(d Defaults) bool { return d.Restarts != nil })
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
			if locked.locked && isSame && d.Value != locked.Value {
				r.add(path+"defaults."+d.key, "must be %q, which the cluster locks", locked.Value)
			}
		}
	}
}
