package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// Record is the content of the annotation [gang.AnnotationInjected]. It documents what admission
// injected. The next admission of the object uses it to determine what Rollcall owns.
//
// Each target has a digest of the injected value. If the current value has another digest, somebody
// has edited the value, and it belongs to the user.
type Record struct {
	// Injector is the name of the injector.
	Injector string `json:"injector"`
	// Build is the build of Rollcall that injected the workload, if known (gang.Config).
	Build string `json:"build,omitempty"`
	// Env and Resources are by container and name, Mounts by container and path.
	Env       map[string]digestsByName `json:"env,omitempty"`
	Mounts    map[string]digestsByName `json:"mounts,omitempty"`
	Resources map[string]digestsByName `json:"resources,omitempty"`
	// Inherited is by container and field.
	Inherited map[string]digestsByName `json:"inherited,omitempty"`
	// InitContainers, Commands, RestartRules and TerminationMessagePolicies are by container.
	InitContainers             digestsByName `json:"initContainers,omitempty"`
	Commands                   digestsByName `json:"commands,omitempty"`
	RestartRules               digestsByName `json:"restartRules,omitempty"`
	TerminationMessagePolicies digestsByName `json:"terminationMessagePolicies,omitempty"`
	// Volumes, SizeLimits, Labels and DNSSearches belong to the pod template and are by name.
	Volumes     digestsByName `json:"volumes,omitempty"`
	SizeLimits  digestsByName `json:"sizeLimits,omitempty"`
	Labels      digestsByName `json:"labels,omitempty"`
	DNSSearches digestsByName `json:"dnsSearches,omitempty"`
	// Fields are values below spec by path.
	Fields map[string]string `json:"fields,omitempty"`
	// Defaults are the sources of the values that a policy set, by kind and name, such as
	// env/trainer/NCCL_IB_HCA: policy:research. The values belong to the user afterward.
	Defaults digestsByName `json:"defaults,omitempty"`
	// Replicas is the last size of a StatefulSet above 0, which its ranks were injected with.
	Replicas int32 `json:"replicas,omitempty"`
}

// digestsByName are digests of values by name.
type digestsByName map[string]string

// ReadRecord returns the record of an earlier admission, or nil without the annotation. The error is
// for an annotation that is not a record.
func ReadRecord(w gang.Workload) (*Record, error) {
	text, ok := w.Meta().Annotations[gang.AnnotationInjected]
	if !ok {
		return nil, nil
	}
	if len(text) > gang.MaxWrittenAnnotationLength {
		return nil, fmt.Errorf("decoding the annotation %s: it has %d bytes", gang.AnnotationInjected, len(text))
	}
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("decoding the annotation %s: %w", gang.AnnotationInjected, err)
	}
	if n := r.maxTargets(); n > maxRecordedTargets {
		return nil, fmt.Errorf("decoding the annotation %s: it contains %d values of one kind", gang.AnnotationInjected, n)
	}
	if !r.hasSizeOf(text) {
		return nil, fmt.Errorf("decoding the annotation %s: its size has another spelling", gang.AnnotationInjected)
	}
	return &r, nil
}

// sizePattern matches the size in the text of a record. The admission policies of the chart read the size
// by the same pattern (rollcall.recordedSize in templates/_helpers.tpl).
var sizePattern = regexp.MustCompile(`"replicas":[0-9]+`)

// hasSizeOf reports whether the policies of the chart read the same size from the text of the record. JSON
// permits other spellings, such as "Replicas" or a second value, which the policies would not see.
func (r *Record) hasSizeOf(text string) bool {
	found := sizePattern.FindAllString(text, 2)
	if r.Replicas == 0 {
		return len(found) == 0
	}
	return len(found) == 1 && found[0] == fmt.Sprintf(`"replicas":%d`, r.Replicas)
}

// ForgetSize removes the size from the record of a new StatefulSet without replicas. The size in a copied
// record is not one that the StatefulSet had, and Rollcall scales a StatefulSet only to its former size.
// An invalid record stays, and [Apply] denies it.
func ForgetSize(w gang.Workload) {
	record, err := ReadRecord(w)
	if err != nil || record == nil || record.Replicas == 0 || w.StatefulSet == nil || w.Ranks() > 0 {
		return
	}
	record.Replicas = 0
	if err := record.WriteTo(w); err != nil { // a record that was decoded can be encoded
		delete(w.Meta().Annotations, gang.AnnotationInjected)
	}
}

// maxRecordedTargets is the maximum number of recorded values of one kind in a container or in a pod
// template. Injectors set about 30. A user could list any number of the user's own values, and the
// removal of each costs as much as their number.
const maxRecordedTargets = 200

// maxTargets returns the largest number of recorded values of one kind in a container or in the pod
// template. Some kinds have one value for each container, of which there are at most
// [gang.MaxContainers].
func (r *Record) maxTargets() int {
	n := max(len(r.InitContainers), len(r.Volumes), len(r.SizeLimits), len(r.Labels), len(r.DNSSearches))
	for _, byContainer := range []map[string]digestsByName{r.Env, r.Mounts, r.Resources, r.Inherited} {
		for _, digests := range byContainer {
			n = max(n, len(digests))
		}
	}
	return max(n, r.maxDefaults())
}

// maxDefaults returns the largest number of recorded defaults in a container or outside of containers.
func (r *Record) maxDefaults() (n int) {
	counts := map[string]int{}
	for key := range r.Defaults {
		container := ""
		if kind, name, _ := strings.Cut(key, "/"); kind == "env" || kind == "resource" {
			container, _, _ = strings.Cut(name, "/")
		}
		counts[container]++
		n = max(n, counts[container])
	}
	return n
}

// WriteTo writes the record to the annotation [gang.AnnotationInjected].
func (r *Record) WriteTo(w gang.Workload) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the annotation %s: %w", gang.AnnotationInjected, err)
	}
	setKey(&w.Meta().Annotations, gang.AnnotationInjected, string(text))
	return nil
}

// TrainingContainers returns the names of the containers of a pod template that have recorded variables,
// in the order of the template. Init containers are not included.
func (r *Record) TrainingContainers(template *corev1.PodTemplateSpec) []string {
	var names []string
	for i := range template.Spec.Containers {
		if name := template.Spec.Containers[i].Name; len(r.Env[name]) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// digestsByTarget returns the digests of the recorded targets.
func (r *Record) digestsByTarget() map[target]string {
	digests := map[target]string{}
	for _, kind := range targetKinds {
		kind.recorded(r, func(t target, digest string) { digests[t] = digest })
	}
	return digests
}

// unmodifiedTargets returns the recorded targets that still have the recorded values.
func (r *Record) unmodifiedTargets(p *podTemplate) map[target]bool {
	unmodified, digester := map[target]bool{}, newDigester(p)
	for t, digest := range r.digestsByTarget() {
		if digester.digestTarget(t) == digest || digest != "" && digester.digestFormerly(t) == digest {
			unmodified[t] = true
		}
	}
	return unmodified
}

// IsUnmodified reports whether all recorded targets of w still have the recorded values.
func (r *Record) IsUnmodified(w gang.Workload) bool {
	return len(r.unmodifiedTargets(newPodTemplate(w.Template()))) == len(r.digestsByTarget())
}

func (r *Record) isEqual(o *Record) bool { return reflect.DeepEqual(r, o) }

// set stores a digest in a map that can be nil.
func (d *digestsByName) set(name, digest string) { setKey(d, name, digest) }

// setByContainer stores a digest in a map that can be nil.
func setByContainer(digests *map[string]digestsByName, container, name, digest string) {
	ofContainer := (*digests)[container]
	ofContainer.set(name, digest)
	setKey(digests, container, ofContainer)
}

// reserveEnv reserves memory for the digests of n variables of a container.
func (r *Record) reserveEnv(container string, n int) {
	if n > 0 {
		setKey(&r.Env, container, make(digestsByName, n))
	}
}

// eachByContainer calls add for each digest.
func eachByContainer(
	digests map[string]digestsByName, newTarget func(container, name string) target, add func(target, string),
) {
	for container, ofContainer := range digests {
		for name, digest := range ofContainer {
			add(newTarget(container, name), digest)
		}
	}
}

// setKey sets a key of a map that can be nil.
func setKey[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[key] = value
}
