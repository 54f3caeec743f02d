package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/policy/defaults"
)

// Defaults are values for fields that the user does not set. They are never applied to a field that the
// user sets. None of them changes the size of the gang, its accelerators, images or commands.
type Defaults struct {
	// Mode is the mode of the defaults, of their locks and of nothing else. Only [ModeEnforce] sets values, and
	// [ModeWarn] names them in warnings. The default is the mode of the profile or of the file.
	Mode Mode `json:"mode,omitempty"`
	// Runtime is spec.activeDeadlineSeconds of a Job, which is the maximum runtime of each attempt.
	Runtime *DefaultValue[Duration] `json:"runtime,omitempty"`
	// TTL is spec.ttlSecondsAfterFinished of a Job. Jobs that Argo CD or Flux applied get no default, because the tool
	// would create the deleted Job again.
	TTL *DefaultValue[Duration] `json:"ttl,omitempty"`
	// Restarts is the annotation rollcall.training/max-restarts.
	Restarts *DefaultValue[int64] `json:"restarts,omitempty"`
	// Disruptions is the annotation rollcall.training/max-disruptions.
	Disruptions *DefaultValue[int64] `json:"disruptions,omitempty"`
	// Queue is the label kueue.x-k8s.io/queue-name of a Job. The default also suspends the Job. A Job with the
	// annotation rollcall.training/queue gets no default.
	Queue *DefaultValue[string] `json:"queue,omitempty"`
	// PriorityClass is the priority class of the pods.
	PriorityClass *DefaultValue[string] `json:"priorityClass,omitempty"`
	// Labels are labels of the workload.
	Labels map[string]DefaultValue[string] `json:"labels,omitempty"`
	// Annotations are annotations of the workload. Those of Rollcall must not determine the size or the
	// ranks.
	Annotations map[string]DefaultValue[string] `json:"annotations,omitempty"`
	// PodAnnotations are annotations of the pods, such as k8s.v1.cni.cncf.io/networks.
	PodAnnotations map[string]DefaultValue[string] `json:"podAnnotations,omitempty"`
	// NodeSelector are labels of the nodes.
	NodeSelector map[string]DefaultValue[string] `json:"nodeSelector,omitempty"`
	// Tolerations are added unless the pods tolerate a taint with the same key.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Env are variables of the training containers, such as NCCL_IB_HCA.
	Env map[string]DefaultValue[string] `json:"env,omitempty"`
	// Resources are limits of extended resources and huge pages of the training containers, such as
	// rdma/hca. Accelerators are not allowed.
	Resources map[string]DefaultValue[string] `json:"resources,omitempty"`
}

// DefaultValue is a default. In the file it is the value, or an object with the fields value and locked.
type DefaultValue[T any] struct {
	// Value is the value.
	Value T
	// Locked denies every other value. It never replaces a value.
	Locked bool

	err error // why the value cannot be read; validation reports it with the path of the field
}

// UnmarshalJSON implements [json.Unmarshaler]. It accepts any text, like [Duration].
func (d *DefaultValue[T]) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		var object struct {
			Value  json.RawMessage `json:"value"`
			Locked bool            `json:"locked"`
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&object); err != nil || object.Value == nil {
			d.err = errors.New("must be a value, or {value: …, locked: true}")
			return nil //nolint:nilerr // validation reports d.err with the path of the field
		}
		d.Locked, text = object.Locked, object.Value
	}
	err := json.Unmarshal(text, &d.Value)
	switch value := any(d.Value).(type) {
	case Duration:
		d.err = value.err
	case int64:
		if err != nil || value < 0 || value > gang.MaxRestarts {
			d.err = fmt.Errorf("must be a whole number from 0 to %d", gang.MaxRestarts)
		}
	default:
		if err != nil {
			d.err = errors.New("must be a text in quotes")
		}
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (d DefaultValue[T]) MarshalJSON() ([]byte, error) {
	if !d.Locked {
		return json.Marshal(d.Value)
	}
	return json.Marshal(map[string]any{"value": d.Value, "locked": true})
}

// fieldDefault is a default with its place in the file.
type fieldDefault struct {
	defaults.Default
	key    string // the path below defaults, as users read it
	path   string // the path below defaults, as the reader of files needs it
	locked bool
	shown  any   // the value, as in the file
	err    error // why the value cannot be read
	line   int   // in the file
}

// list returns the defaults sorted by their keys. The source of each is the scope.
func (d Defaults) list(scope string) []fieldDefault {
	list := slices.Concat(
		newFieldDefault("runtime", defaults.Runtime, "", d.Runtime),
		newFieldDefault("ttl", defaults.TTL, "", d.TTL),
		newFieldDefault("restarts", defaults.Restarts, "", d.Restarts),
		newFieldDefault("disruptions", defaults.Annotation, gang.AnnotationMaxDisruptions, d.Disruptions),
		newFieldDefault("queue", defaults.Queue, "", d.Queue),
		newFieldDefault("priorityClass", defaults.PriorityClass, "", d.PriorityClass),
		listEntries("labels", defaults.Label, d.Labels),
		listEntries("annotations", defaults.Annotation, d.Annotations),
		listEntries("podAnnotations", defaults.PodAnnotation, d.PodAnnotations),
		listEntries("nodeSelector", defaults.NodeSelector, d.NodeSelector),
		listEntries("env", defaults.Env, d.Env),
		listEntries("resources", defaults.Resource, d.Resources),
	)
	for i, t := range d.Tolerations {
		value := &DefaultValue[corev1.Toleration]{Value: t}
		list = append(list, newFieldDefault(fmt.Sprintf("tolerations[%d]", i), defaults.Toleration, "", value)...)
	}
	for i := range list {
		list[i].Source = "policy:" + scope
	}
	slices.SortStableFunc(list, func(a, b fieldDefault) int { return strings.Compare(a.key, b.key) })
	return list
}

// newFieldDefault returns one default, or none for a nil value.
func newFieldDefault[T any](key string, kind defaults.Kind, name string, v *DefaultValue[T]) []fieldDefault {
	if v == nil {
		return nil
	}
	text := fmt.Sprint(v.Value)
	switch value := any(v.Value).(type) {
	case Duration:
		text = formatInt(int64(value.value.Seconds()))
	case corev1.Toleration:
		encoded, _ := json.Marshal(value) // it has only texts and numbers
		text = string(encoded)
	}
	return []fieldDefault{{
		Default: defaults.Default{Kind: kind, Name: name, Value: text},
		key:     key, path: key, locked: v.Locked, shown: v.Value, err: v.err,
	}}
}

// listEntries returns the defaults of a map by their names.
func listEntries(key string, kind defaults.Kind, values map[string]DefaultValue[string]) []fieldDefault {
	var list []fieldDefault
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		d := newFieldDefault(key+"."+name, kind, name, &v)[0]
		d.path = key + "[" + name + "]"
		list = append(list, d)
	}
	return list
}

// ApplyDefaults sets the fields of a new workload for which the policy has a default and the user has no
// value: first the defaults of the selected profile, then those of the namespace's profile, then those of
// the cluster. It records the source of each value in the annotation rollcall.training/injected, and
// precedes the injection, so that Rollcall derives its own values from the defaults. It does not change a
// workload that Rollcall does not manage. A second call changes nothing. Defaults in another mode than [ModeEnforce]
// change nothing, and those in [ModeWarn] are warnings.
//
// The error is an [apierrors.StatusError] with HTTP code 422 if the workload selects a profile that does not
// exist. A nil Policy has no profiles.
func (p *Policy) ApplyDefaults(w gang.Workload, ns Namespace) (gang.Warnings, error) {
	if !w.HasFrameworkLabel() || w.OptedOut() {
		return nil, nil
	}
	selected := w.Meta().Annotations[gang.AnnotationProfile]
	warnings, err := p.checkSelected(w, ns, selected)
	if err != nil || p == nil {
		return nil, err
	}
	var list []defaults.Default
	scopes := p.scopesOf(ns, selected)
	for _, s := range slices.Backward(scopes) {
		if mode := p.limitMode(s.defaultsMode); mode == ModeEnforce || mode == ModeWarn {
			for _, d := range s.defaults {
				d.OnlyWarn = mode == ModeWarn
				if !d.repeatsTraining(w) {
					list = append(list, d.Default)
				}
			}
		}
		if p.findMaxDisruptions(s) != nil && requestsGangRestarts(w) {
			list = append(list, defaults.Default{
				Kind: defaults.Annotation, Name: gang.AnnotationMaxDisruptions, Source: "policy:" + s.name,
				Value: formatInt(min(*p.findMaxDisruptions(scopes...), gang.MaxRestarts)),
			})
		}
	}
	more, err := defaults.Apply(w, list, p.frameworks)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return append(warnings, more...), nil
}

// findMaxDisruptions returns the lowest limit of disruptions that the policy enforces in the scopes; nil without a
// limit. It is the default of these scopes: a gang without an own value would violate the limit otherwise.
func (p *Policy) findMaxDisruptions(scopes ...scope) *int64 {
	var lowest *int64
	for _, s := range scopes {
		for _, c := range s.checks {
			l, ok := c.value.(*DisruptionsLimit)
			if ok && p.limitMode(c.mode) == ModeEnforce && (lowest == nil || *l.Max < *lowest) {
				lowest = l.Max
			}
		}
	}
	return lowest
}

// requestsGangRestarts reports whether the annotations of a workload let Rollcall restart its gang, so that disruptions
// are counted. Admission warns about a limit of disruptions on other workloads.
func requestsGangRestarts(w gang.Workload) bool {
	annotations := w.Meta().Annotations
	if policy, ok := annotations[gang.AnnotationRestartPolicy]; ok {
		return policy == string(gang.RestartPolicyGang)
	}
	_, isElastic := annotations[gang.AnnotationElastic]
	return !isElastic
}

// The keys by which Argo CD (resource tracking) and Flux (Kustomization, HelmRelease) find the objects that they
// applied. Argo CD can also use app.kubernetes.io/instance, which Helm sets, too.
var (
	gitOpsLabels = []string{
		"argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name",
	}
	gitOpsAnnotations = []string{"argocd.argoproj.io/tracking-id"}
)

// repeatsTraining reports whether a default would let a GitOps tool repeat the training: Kubernetes deletes the
// finished Job, and the tool creates it again.
func (d fieldDefault) repeatsTraining(w gang.Workload) bool {
	hasKey := func(values map[string]string, keys []string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { _, ok := values[key]; return ok })
	}
	return d.Kind == defaults.TTL &&
		(hasKey(w.Meta().Labels, gitOpsLabels) || hasKey(w.Meta().Annotations, gitOpsAnnotations))
}

// checkName returns the name of the check of a locked default. A rule cannot have the name, because it
// contains a dot.
func (d fieldDefault) checkName() string { return "defaults." + d.key }

// checkLocked adds the violations of a locked default: values other than the default.
func (d fieldDefault) checkLocked(e *evaluation, v *violations, frameworks gang.Frameworks) {
	if e.Workload.Job == nil && e.Workload.StatefulSet == nil {
		return
	}
	for _, current := range defaults.Read(e.Workload, d.Default, frameworks) {
		switch {
		case current.Value == d.Value, current.Value == "" && d.repeatsTraining(e.Workload):
		case current.Value == "":
			v.add(current.Path, "", "is required, because the policy locks the value; use %q", d.Value)
		default:
			v.add(current.Path, current.Value,
				"is not allowed, because the policy locks the value; use %q, or remove the field", d.Value)
		}
	}
}

// selectableKey is the name of the check that a workload keeps its profile. It is the key that makes a profile
// selectable.
const selectableKey = "selectable"

// checkSelected returns an error or a warning for a profile that the workload cannot select. The mode of the file
// decides. Without a policy, it is an error.
func (p *Policy) checkSelected(w gang.Workload, ns Namespace, selected string) (gang.Warnings, error) {
	available := p.selectableProfiles(ns)
	if selected == "" || slices.Contains(available, selected) {
		return nil, nil
	}
	path := annotationsPath.Key(gang.AnnotationProfile)
	cause := field.NotSupported(path, gang.ShortenText(selected), available)
	if len(available) == 0 {
		cause = field.Invalid(path, gang.ShortenText(selected),
			"the policy has no profile that a workload of this namespace can select; remove the annotation")
	}
	mode := ModeEnforce
	if p != nil {
		mode = p.limitMode(cmp.Or(p.file.Mode, ModeEnforce))
	}
	switch mode {
	case ModeEnforce:
		return nil, apierrors.NewInvalid(w.GroupKind(), gang.ShortenText(w.Meta().Name), field.ErrorList{cause})
	case ModeWarn:
		return gang.Warnings{gang.NewWarning(path, cause.ErrorBody())}, nil
	}
	return nil, nil
}

// selectableProfiles returns the names of the profiles that workloads of a namespace can select.
func (p *Policy) selectableProfiles(ns Namespace) []string {
	if p == nil {
		return nil
	}
	var names []string
	for _, profile := range p.file.Profiles {
		if profile.Selectable && (profile.Namespaces.isEmpty() || profile.Namespaces.Matches(ns)) {
			names = append(names, profile.Name)
		}
	}
	return names
}

// LeftProfile returns a finding if an update makes a workload leave the profile that it selects. The defaults of the
// profile, such as tolerations, would remain in the workload without the limits of the profile. A profile that the
// policy no longer has can be left.
func (p *Policy) LeftProfile(before gang.Workload, after Input) []Finding {
	m, left := after.Members[0], before.Meta().Annotations[gang.AnnotationProfile]
	if left == m.profile() || !slices.Contains(p.selectableProfiles(after.Namespace), left) {
		return nil
	}
	c := check{name: left + "/" + selectableKey, mode: p.findScope(left).mode}
	if p.limitMode(c.mode) == ModeOff || p.isExempt(c.name, m.Gang, after.Now) {
		return nil
	}
	var v violations
	v.add(annotationsPath.Key(gang.AnnotationProfile).String(), m.profile(),
		"cannot change, because the workload has the defaults of the profile %s; set it to %q, "+
			"or create the workload again", left, left)
	return p.completeFindings(c, v)
}
