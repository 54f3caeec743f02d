package policy

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podsecurity "k8s.io/pod-security-admission/api"

	"rollcall.training/gang"
)

// Limits are bounds on single facts of a gang. A limit that is absent does not hold.
type Limits struct {
	// Size bounds the number of ranks. An elastic gang counts with its maximum size.
	Size *SizeLimit `json:"size,omitempty"`
	// GPUs bounds the accelerators of all pods of the gang, of any vendor.
	GPUs *GPULimit `json:"gpus,omitempty"`
	// WholeNodes requires pods with accelerators to use all accelerators of a node.
	WholeNodes *WholeNodesLimit `json:"wholeNodes,omitempty"`
	// GPUHours bounds the accelerators of the gang multiplied by its maximum runtime and by its attempts: one more than
	// its restarts. Attempts after a disruption or a suspension are not included.
	GPUHours *GPUHoursLimit `json:"gpuHours,omitempty"`
	// Frameworks restricts the label rollcall.training/framework.
	Frameworks *FrameworksLimit `json:"frameworks,omitempty"`
	// Runtime bounds spec.activeDeadlineSeconds of a Job, which is the maximum runtime of each attempt.
	Runtime *DurationLimit `json:"runtime,omitempty"`
	// TTL bounds spec.ttlSecondsAfterFinished of a Job.
	TTL *DurationLimit `json:"ttl,omitempty"`
	// Restarts bounds the restarts of the gang.
	Restarts *RestartsLimit `json:"restarts,omitempty"`
	// Disruptions bounds the disruptions after which the gang restarts. The maximum is also the default of
	// gangs without an own limit, if the mode is enforce.
	Disruptions *DisruptionsLimit `json:"disruptions,omitempty"`
	// Labels requires and forbids labels of the workload.
	Labels *LabelsLimit `json:"labels,omitempty"`
	// Images restricts the images of all containers and of image volumes.
	Images *ImagesLimit `json:"images,omitempty"`
	// PriorityClass restricts the priority class of the pods.
	PriorityClass *NameLimit `json:"priorityClass,omitempty"`
	// Queue restricts the label kueue.x-k8s.io/queue-name and the annotation rollcall.training/queue.
	Queue *NameLimit `json:"queue,omitempty"`
	// PodSecurity requires a level of the Pod Security Standards of the pod template. The admission of
	// Kubernetes denies only pods, after the workload exists.
	PodSecurity *PodSecurityLimit `json:"podSecurity,omitempty"`
	// Checkpoint requires gangs that restart to have a place for checkpoints.
	Checkpoint *CheckpointLimit `json:"checkpoint,omitempty"`
	// HiddenGPUs forbids the variable NVIDIA_VISIBLE_DEVICES, except none, void and no value. With
	// the variable, the NVIDIA container runtime exposes accelerators that no quota counts, also in a container that
	// requests others. A variable with valueFrom is forbidden, too. Variables of envFrom are not known.
	HiddenGPUs *HiddenGPUsLimit `json:"hiddenGPUs,omitempty"`
}

// limit is one key of [Limits].
type limit interface {
	// validate reports the mistakes of the limit that [reader.validateLimit] does not know, and prepares it for check.
	validate(r *reader, path string)
	// check adds the violations of a gang. The key is that of the limit.
	check(key string, f facts, v *violations)
	// mode returns the mode that the limit sets, or an empty string.
	mode() Mode
}

// namedLimit is a limit with its key in the file.
type namedLimit struct {
	key string
	limit
}

// list returns the limits that are set, in the order of the documentation.
func (l Limits) list() []namedLimit {
	var limits []namedLimit
	for field, value := range reflect.ValueOf(l).Fields() {
		if !value.IsNil() {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			limits = append(limits, namedLimit{key: key, limit: value.Interface().(limit)})
		}
	}
	return limits
}

// violations are the findings of one limit or rule, without its name and mode.
type violations []Finding

// add adds a violation of a field by a value: a text, a number, or an empty text for an absent field. The caller can
// complete it.
func (v *violations) add(field string, value any, format string, args ...any) *Finding {
	*v = append(*v, Finding{Field: field, Value: fmt.Sprint(value), Message: fmt.Sprintf(format, args...)})
	return &(*v)[len(*v)-1]
}

// LimitMode is the mode of a limit.
type LimitMode struct {
	// Mode is the mode of the limit. The default is the mode of the profile or of the file.
	Mode Mode `json:"mode,omitempty"`
}

func (m LimitMode) mode() Mode               { return m.Mode }
func (m LimitMode) validate(*reader, string) {}

// validateLimit reports the mistakes that each limit can have: a mode, a number or a duration that does not exist, and
// no field that has an effect.
func (r *reader) validateLimit(path string, l limit) {
	r.checkMode(path+".mode", l.mode())
	before, hasEffect := len(r.problems), false
	switch l.(type) {
	case *GPUHoursLimit, *CheckpointLimit, *HiddenGPUsLimit:
		hasEffect = true // without a field, too
	}
	var names []string
	for field, value := range reflect.ValueOf(l).Elem().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // the mode, or a field of the program
			continue
		}
		names = append(names, name)
		isList := value.Kind() == reflect.Map || value.Kind() == reflect.Slice
		hasEffect = hasEffect || !value.IsZero() && (!isList || value.Len() > 0)
		switch v := value.Interface().(type) {
		case int64:
			r.checkCount(path+"."+name, &v)
		case *int64:
			r.checkCount(path+"."+name, v)
		case *Duration:
			if v != nil && v.err != nil {
				r.add(path+"."+name, "%v", v.err)
			}
		}
	}
	l.validate(r, path)
	if last := len(names) - 1; !hasEffect && len(r.problems) == before {
		r.add(path, "has no effect; set %s", strings.TrimPrefix(strings.Join(names[:last], ", ")+" or "+names[last], " or "))
	}
}

// SizeLimit bounds a number of ranks.
type SizeLimit struct {
	LimitMode `json:",inline"`
	// Min and Max are inclusive; absent means no bound.
	Min *int64 `json:"min,omitempty"`
	Max *int64 `json:"max,omitempty"`
}

// GPULimit bounds a number of accelerators.
type GPULimit struct {
	LimitMode `json:",inline"`
	// Max is inclusive; absent means no bound. With 0, gangs have no accelerators.
	Max *int64 `json:"max,omitempty"`
	// MultipleOf divides the number; 0 means no requirement.
	MultipleOf int64 `json:"multipleOf,omitempty"`
	// In lists the allowed numbers; empty means no requirement. A gang without accelerators is
	// always allowed.
	In []int64 `json:"in,omitempty"`
}

// WholeNodesLimit requires pods to use whole nodes.
type WholeNodesLimit struct {
	LimitMode `json:",inline"`
	// GPUsPerNode is the number of accelerators of a node.
	GPUsPerNode int64 `json:"gpusPerNode"`
	// FromPods is the smallest number of ranks for which the limit holds. The default is 2.
	FromPods *int64 `json:"fromPods,omitempty"`
}

// GPUHoursLimit bounds accelerators multiplied by hours.
type GPUHoursLimit struct {
	LimitMode `json:",inline"`
	// Max is inclusive. A gang with accelerators and without a maximum runtime violates the limit.
	Max int64 `json:"max"`
}

// FrameworksLimit restricts frameworks.
type FrameworksLimit struct {
	LimitMode `json:",inline"`
	// Allow lists the allowed frameworks; empty means all.
	Allow []string `json:"allow,omitempty"`
	// Deny lists frameworks that are not allowed.
	Deny []string `json:"deny,omitempty"`
}

// DurationLimit bounds a duration.
type DurationLimit struct {
	LimitMode `json:",inline"`
	// Required forbids workloads without the field. A StatefulSet without which the gang ends is permitted, because the
	// Job that ends the gang must have the field.
	Required bool `json:"required,omitempty"`
	// Min and Max are inclusive; absent means no bound.
	Min *Duration `json:"min,omitempty"`
	Max *Duration `json:"max,omitempty"`
}

// RestartsLimit bounds restarts.
type RestartsLimit struct {
	LimitMode `json:",inline"`
	// Max is inclusive; absent means no bound.
	Max *int64 `json:"max,omitempty"`
	// Policies lists the allowed values of the annotation rollcall.training/restart-policy; empty means
	// any value. The default of the annotation counts as well.
	Policies []gang.RestartPolicy `json:"policies,omitempty"`
}

// DisruptionsLimit bounds disruptions, such as evictions and lost nodes.
type DisruptionsLimit struct {
	LimitMode `json:",inline"`
	// Max is inclusive. A gang with unlimited disruptions exceeds it.
	Max *int64 `json:"max"`
}

// LabelsLimit requires and forbids labels.
type LabelsLimit struct {
	LimitMode `json:",inline"`
	// Require contains regular expressions (RE2) by label. A workload must have each label, and the
	// entire value must match.
	Require map[string]string `json:"require,omitempty"`
	// Forbid lists labels that a workload must not have.
	Forbid []string `json:"forbid,omitempty"`

	patterns map[string]*regexp.Regexp // of Require; validate sets it
}

// ImagesLimit restricts images.
type ImagesLimit struct {
	LimitMode `json:",inline"`
	// Allow contains the allowed registries or repositories by framework. The key "*" holds for the
	// frameworks that have no key. An entry matches entire components of a path:
	// registry.example.com/hpc matches registry.example.com/hpc/osu:1, and not
	// registry.example.com/hpc-old/osu:1.
	Allow map[string][]string `json:"allow,omitempty"`
	// Deny lists registries or repositories that no framework may use. Entries have the form of those of
	// Allow.
	Deny []string `json:"deny,omitempty"`
	// Digests requires images with a digest.
	Digests bool `json:"digests,omitempty"`
}

// NameLimit restricts a name.
type NameLimit struct {
	LimitMode `json:",inline"`
	// Required forbids workloads without the name.
	Required bool `json:"required,omitempty"`
	// Allow lists the allowed names; empty means any name.
	Allow []string `json:"allow,omitempty"`
}

// PodSecurityLimit requires a level of the Pod Security Standards.
type PodSecurityLimit struct {
	LimitMode `json:",inline"`
	// Level is baseline or restricted.
	Level string `json:"level"`
	// Version is the version of the standards, such as v1.33. The default is the latest version of this
	// release of Rollcall.
	Version string `json:"version,omitempty"`
	// Allow contains what the level forbids and a fabric needs.
	Allow PodSecurityExceptions `json:"allow,omitempty"`

	required podsecurity.LevelVersion // validate sets it
}

// PodSecurityExceptions are parts of a pod that a level does not judge.
type PodSecurityExceptions struct {
	// Capabilities lists capabilities that containers may add. RDMA needs IPC_LOCK.
	Capabilities []corev1.Capability `json:"capabilities,omitempty"`
	// HostPaths lists directories of the node that pods may mount, including the content, such as
	// /dev/infiniband.
	HostPaths []string `json:"hostPaths,omitempty"`
	// HostNetwork allows pods in the network of the node, and the host ports that they then have.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// HostIPC allows pods to share memory with other pods on the node.
	HostIPC bool `json:"hostIPC,omitempty"`
}

// CheckpointLimit requires a writable volume that outlives the pods, or a storage URL, in a training
// container of the gang.
type CheckpointLimit struct {
	LimitMode `json:",inline"`
	// WhenRestarts is the lowest number of restarts for which the limit holds. The default is 1.
	WhenRestarts *int64 `json:"whenRestarts,omitempty"`
	// MinSize is the lowest number of ranks for which the limit holds. The default is 1.
	MinSize *int64 `json:"minSize,omitempty"`
}

// HiddenGPUsLimit has no parameters other than its mode.
type HiddenGPUsLimit struct {
	LimitMode `json:",inline"`
}

// maxCount is the maximum of every number in a file. The largest gang has [gang.MaxPods] ranks with
// [gang.MaxProcessesPerPod] accelerators each.
const maxCount = int64(gang.MaxPods) * gang.MaxProcessesPerPod

// maxDuration is the maximum of every duration in a file: ten years.
const maxDuration = 10 * 365 * 24 * time.Hour
