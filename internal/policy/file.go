package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// The type of the file. Nothing with this type exists in the API of the cluster.
const (
	APIVersion = "policy.rollcall.training/v1alpha1"
	Kind       = "GangPolicy"
)

// ClusterScope is the scope of limits and rules that hold in every namespace. No profile has the name.
const ClusterScope = "cluster"

// File is the content of a policy file. [Read] returns it inside of a [Policy].
type File struct {
	// APIVersion is [APIVersion].
	APIVersion string `json:"apiVersion"`
	// Kind is [Kind].
	Kind string `json:"kind"`
	// Mode is the mode of every limit and rule that sets none. The default is [ModeEnforce].
	Mode Mode `json:"mode,omitempty"`
	// Contact is whom to ask for an exemption, such as a chat channel or a URL. Every finding
	// contains it.
	Contact string `json:"contact,omitempty"`
	// Cluster holds in every namespace.
	Cluster Scope `json:"cluster,omitempty"`
	// Profiles are sets of defaults, limits and rules. The first profile that matches a namespace and is
	// not selectable is the profile of the namespace. A workload can select another one. The limits of
	// both hold in addition to those of Cluster.
	Profiles []Profile `json:"profiles,omitempty"`
	// Unlabeled is about workloads that the webhook of Rollcall never receives. rollcall policy vap and
	// the Helm chart render it as ValidatingAdmissionPolicies.
	Unlabeled Unlabeled `json:"unlabeled,omitempty"`
	// Exemptions are the gangs that may violate a limit or rule until a date.
	Exemptions []Exemption `json:"exemptions,omitempty"`
}

// Count returns the number of limits, rules and defaults of the cluster and of all profiles.
func (f File) Count() (limits, rules, defaults int) {
	scopes := []Scope{f.Cluster}
	for _, p := range f.Profiles {
		scopes = append(scopes, p.Scope)
	}
	for _, s := range scopes {
		limits += len(s.Limits.list())
		rules += len(s.Rules)
		defaults += len(s.Defaults.list(""))
	}
	return limits, rules, defaults
}

// Scope is a set of defaults, limits and rules that hold together.
type Scope struct {
	// Defaults are values for fields that the user does not set.
	Defaults Defaults `json:"defaults,omitempty"`
	// Limits are bounds on single facts of a gang.
	Limits Limits `json:"limits,omitempty"`
	// Rules are conditions in CEL that no limit can express.
	Rules []Rule `json:"rules,omitempty"`
}

// Profile is a scope that holds in the matching namespaces, or for the workloads that select it.
type Profile struct {
	// Name identifies the profile in findings. It is a DNS label.
	Name string `json:"name"`
	// Mode is the mode of the profile's limits and rules that set none. The default is the mode of the
	// file.
	Mode Mode `json:"mode,omitempty"`
	// Namespaces selects the namespaces of the profile. It is required unless the profile is selectable.
	Namespaces NamespaceMatcher `json:"namespaces,omitempty"`
	// Selectable lets a workload select the profile with the annotation rollcall.training/profile. The
	// profile then holds only for these workloads. If Namespaces is set, only workloads in these
	// namespaces can select the profile.
	Selectable bool `json:"selectable,omitempty"`
	Scope      `json:",inline"`
}

// NamespaceMatcher matches a namespace by name or by labels. It must set at least one field. A
// namespace that matches one of the fields matches.
type NamespaceMatcher struct {
	// Names are patterns in which * stands for any text, such as "research-*".
	Names []string `json:"names,omitempty"`
	// Selector selects namespaces by their labels. Tenants must not be able to change these labels.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// Unlabeled are limits for Jobs and StatefulSets that are not gangs, because they do not have the label
// rollcall.training/framework or opt out.
type Unlabeled struct {
	// MultiPodGPU is about workloads with several pods, accelerators and no label.
	MultiPodGPU *MultiPodGPU `json:"multiPodGPU,omitempty"`
	// OptOut is about workloads with the label and rollcall.training/inject: "false".
	OptOut *OptOut `json:"optOut,omitempty"`
	// ExceptNamespaces are the names of namespaces in which neither holds.
	ExceptNamespaces []string `json:"exceptNamespaces,omitempty"`
}

// MultiPodGPU requires workloads with several pods and accelerators to be gangs.
type MultiPodGPU struct {
	LimitMode `json:",inline"`
	// Kinds are the kinds of workloads: Job and StatefulSet. The default is only Job, because a
	// StatefulSet with accelerators often serves a model.
	Kinds []gang.Kind `json:"kinds,omitempty"`
}

// OptOut forbids workloads to opt out.
type OptOut struct {
	LimitMode `json:",inline"`
}

// Exemption allows gangs to violate a limit or rule.
type Exemption struct {
	// Rule is the name of the limit or rule, as in findings: scope/name, such as "research/gpus".
	Rule string `json:"rule"`
	// Namespace is the namespace of the gangs.
	Namespace string `json:"namespace"`
	// Gangs are patterns for the names of the gangs, in which * stands for any text.
	Gangs []string `json:"gangs"`
	// Until is the last day of the exemption in UTC, such as 2027-03-31.
	Until string `json:"until"`
	// Reason is the reason for the exemption, such as the number of a ticket.
	Reason string `json:"reason"`
}

// Mode is the consequence of a violation.
type Mode string

// The modes, strictest first.
const (
	// ModeEnforce denies the gang.
	ModeEnforce Mode = "enforce"
	// ModeWarn admits the gang with a warning and an Event.
	ModeWarn Mode = "warn"
	// ModeAudit admits the gang. Only metrics, the audit log of the API server, and rollcall policy
	// audit show the violation.
	ModeAudit Mode = "audit"
	// ModeOff disables the limit or rule.
	ModeOff Mode = "off"
)

// Modes returns all modes, strictest first.
func Modes() []Mode { return []Mode{ModeEnforce, ModeWarn, ModeAudit, ModeOff} }

// UnmarshalJSON implements [json.Unmarshaler]. YAML 1.1 reads off without quotes as the boolean false.
func (m *Mode) UnmarshalJSON(text []byte) error {
	if string(text) == "false" {
		*m = ModeOff
		return nil
	}
	return json.Unmarshal(text, (*string)(m))
}

// Duration is a duration in the syntax of Go, such as 72h or 90m. It is positive and at most ten years.
type Duration struct {
	value time.Duration
	err   error // why the text is not a duration; validation reports it with the path of the field
}

// UnmarshalJSON implements [json.Unmarshaler]. It accepts any text, because an error of the decoder
// would not have the path of the field.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var value string
	if err := json.Unmarshal(text, &value); err != nil {
		value = string(text)
	}
	d.value, d.err = parseDuration(value)
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("must be a duration with the units h, m and s, such as 90m or 72h")
	}
	if parsed <= 0 || parsed > maxDuration {
		return 0, fmt.Errorf("must be above 0 and at most %s", formatDuration(maxDuration))
	}
	return parsed, nil
}

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// String returns the duration without units that are zero.
func (d Duration) String() string { return formatDuration(d.value) }

func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
