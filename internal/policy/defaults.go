package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
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
	// Queue is the label kueue.x-k8s.io/queue-name of a Job. The default also suspends the Job.
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
	if err := json.Unmarshal(text, &d.Value); err != nil {
		d.err = fmt.Errorf("must be %s", describeType(d.Value))
	}
	return nil
}

func describeType(v any) string {
	if _, isNumber := v.(int64); isNumber {
		return "a whole number"
	}
	return "a text in quotes"
}

// MarshalJSON implements [json.Marshaler].
func (d DefaultValue[T]) MarshalJSON() ([]byte, error) {
	if !d.Locked {
		return json.Marshal(d.Value)
	}
	return json.Marshal(map[string]any{"value": d.Value, "locked": true})
}

// defaultField is a default with its key in the file.
type defaultField struct {
	injection.FieldDefault
	key    string // the path below defaults, as users read it
	path   string // the path below defaults, as the reader of files needs it
	locked bool
	shown  any // the value, as in the file
	line   int // in the file
}

// list returns the defaults in the order of the documentation. The source of each is the scope.
func (d Defaults) list(scope string) []defaultField {
	var fields []defaultField
	add := func(key string, kind injection.DefaultKind, name, value string, locked bool, shown any) {
		fields = append(fields, defaultField{
			FieldDefault: injection.FieldDefault{Kind: kind, Name: name, Value: value, Source: "policy:" + scope},
			key:          key, path: key, locked: locked, shown: shown,
		})
	}
	for key, v := range map[string]*DefaultValue[Duration]{"runtime": d.Runtime, "ttl": d.TTL} {
		if v != nil {
			add(key, injection.DefaultKind(key), "", formatInt(int64(v.Value.value.Seconds())), v.Locked, v.Value)
		}
	}
	if d.Restarts != nil {
		add("restarts", injection.DefaultRestarts, "", formatInt(d.Restarts.Value), d.Restarts.Locked, d.Restarts.Value)
	}
	if v := d.Disruptions; v != nil {
		add("disruptions", injection.DefaultAnnotation, gang.AnnotationMaxDisruptions, formatInt(v.Value), v.Locked, v.Value)
	}
	for key, v := range map[string]*DefaultValue[string]{"queue": d.Queue, "priorityClass": d.PriorityClass} {
		if v != nil {
			add(key, injection.DefaultKind(key), "", v.Value, v.Locked, v.Value)
		}
	}
	for _, m := range d.maps() {
		for _, name := range slices.Sorted(maps.Keys(m.values)) {
			v := m.values[name]
			add(m.key+"."+name, m.kind, name, v.Value, v.Locked, v.Value)
			fields[len(fields)-1].path = m.key + "[" + name + "]"
		}
	}
	for i, t := range d.Tolerations {
		text, err := json.Marshal(t)
		if err == nil { // a toleration has only texts and numbers
			add(fmt.Sprintf("tolerations[%d]", i), injection.DefaultToleration, "", string(text), false, t)
		}
	}
	slices.SortStableFunc(fields, func(a, b defaultField) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	return fields
}

// defaultMap is a default with several names.
type defaultMap struct {
	key    string
	kind   injection.DefaultKind
	values map[string]DefaultValue[string]
}

func (d Defaults) maps() []defaultMap {
	return []defaultMap{
		{"labels", injection.DefaultLabel, d.Labels},
		{"annotations", injection.DefaultAnnotation, d.Annotations},
		{"podAnnotations", injection.DefaultPodAnnotation, d.PodAnnotations},
		{"nodeSelector", injection.DefaultNodeSelector, d.NodeSelector},
		{"env", injection.DefaultEnv, d.Env},
		{"resources", injection.DefaultResource, d.Resources},
	}
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
	var defaults []injection.FieldDefault
	scopes := p.scopesOf(ns, selected)
	for _, s := range slices.Backward(scopes) {
		if mode := p.limitMode(s.defaultsMode); mode == ModeEnforce || mode == ModeWarn {
			for _, d := range s.defaults {
				d.OnlyWarn = mode == ModeWarn
				if !d.repeatsTraining(w) {
					defaults = append(defaults, d.FieldDefault)
				}
			}
		}
		if p.findMaxDisruptions(s) != nil && requestsGangRestarts(w) {
			defaults = append(defaults, injection.FieldDefault{
				Kind: injection.DefaultAnnotation, Name: gang.AnnotationMaxDisruptions, Source: "policy:" + s.name,
				Value: formatInt(min(*p.findMaxDisruptions(scopes...), gang.MaxRestarts)),
			})
		}
	}
	more, err := injection.ApplyDefaults(w, defaults)
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

// checkSelected returns an error or a warning for a profile that the workload cannot select. The mode of the file
// decides. Without a policy, it is an error.
func (p *Policy) checkSelected(w gang.Workload, ns Namespace, selected string) (gang.Warnings, error) {
	available := p.SelectableProfiles(ns)
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

// SelectableProfiles returns the names of the profiles that workloads of a namespace can select.
func (p *Policy) SelectableProfiles(ns Namespace) []string {
	if p == nil {
		return nil
	}
	var names []string
	for _, profile := range p.file.Profiles {
		if profile.isSelectableIn(ns) {
			names = append(names, profile.Name)
		}
	}
	return names
}

// isSelectableIn reports whether workloads of a namespace can select the profile.
func (p Profile) isSelectableIn(ns Namespace) bool {
	return p.Selectable && (p.Namespaces.isEmpty() || p.Namespaces.Matches(ns))
}

// checkName returns the name of the check of a locked default. A rule cannot have the name, because it
// contains a dot.
func (d defaultField) checkName() string { return "defaults." + d.key }

// checkLocked returns the violations of a locked default: values other than the default.
func (d defaultField) checkLocked(e *evaluation) []violation {
	if e.Workload.Job == nil && e.Workload.StatefulSet == nil {
		return nil
	}
	var violations []violation
	for _, current := range injection.ReadDefault(e.Workload, d.FieldDefault) {
		if current.Value == d.Value || current.Value == "" && d.repeatsTraining(e.Workload) {
			continue
		}
		message := fmt.Sprintf("is not allowed, because the policy locks the value; use %q, or remove the field", d.Value)
		if current.Value == "" {
			message = fmt.Sprintf("is required, because the policy locks the value; use %q", d.Value)
		}
		violations = append(violations, violation{field: current.Path, value: current.Value, message: message})
	}
	return violations
}
