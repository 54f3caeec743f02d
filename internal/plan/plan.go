package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Plan is the result of one or more injectors for a workload. The zero value changes nothing.
type Plan struct {
	// Injector is the name of the injector for the [Record].
	Injector string
	// Build is the build of the engine; see gang.Config.
	Build string
	// Env are the variables of every training container and every init container, in this order. A
	// value can refer to an earlier variable by $(NAME).
	Env []Env
	// PodLabels are labels of the pod template.
	PodLabels []Label
	// Volumes are volumes of the pod template and their mounts in the training containers.
	Volumes []Volume
	// InitContainers are appended to the existing init containers.
	InitContainers []InitContainer
	// Command is the command of the first training container if the user has set neither a command nor
	// arguments; empty means the command of the image.
	Command []string
	// RestartInPlace restarts failed training containers of a Job within their pods.
	RestartInPlace bool
	// JobFailureLimit is how often in a row a rank of a Job may fail (gang.Policies). It replaces the
	// limits of the Job, because Rollcall counts restarts of the gang. Limits of the user are kept. 0
	// keeps all limits.
	JobFailureLimit int32
	// CompleteWithFirstPod completes a Job when its first pod succeeds, unless the user has set a
	// successPolicy (KEP-3998, GA in 1.33).
	CompleteWithFirstPod bool
	// DNSSearches are DNS search domains of the pods.
	DNSSearches []string
	// Resources are extended resources of the training containers, as limit and request.
	Resources []Resource
	// Programs are the programs that the image must contain. They document the plan: Apply cannot read
	// an image.
	Programs []Program
	// Children are the objects that the reconciler creates for the gang.
	Children Children
}

// ConflictPolicy determines what happens if the user has set a different value, in the order from strict to
// lenient. A policy has the same effect on variables, labels and mounts.
type ConflictPolicy int

const (
	// Required denies the workload: the gang needs the value, such as a rank or an address. The error contains the
	// path and the fix. It is the zero value, so that an omitted policy is strict.
	Required ConflictPolicy = iota
	// Warn keeps the user's value, and admission shows a warning with the planned value.
	Warn
	// Suggest keeps the user's value. Admission shows nothing, and rollcall vet shows the planned value
	// (gang.Warning.Advice).
	Suggest
	// KeepUser keeps the user's value silently.
	KeepUser
)

// Env is a variable.
type Env struct {
	corev1.EnvVar
	Policy ConflictPolicy
	// Meaning determines which other values of the user are accepted as the same.
	Meaning Meaning
	// Fix is an alternative to the removal of a [Required] variable, for the error message; can be
	// empty.
	Fix string
}

// Label is a label on the pod template.
type Label struct {
	Name, Value string
	Policy      ConflictPolicy
	// Disables describes what the label disables, for a warning, if the labels or annotations of the pod
	// template have one of the prefixes in DisabledPrefixes. Can be empty.
	Disables         string
	DisabledPrefixes []string
}

// Volume is a volume with its mounts in the training containers. A volume without mounts is for init
// containers.
type Volume struct {
	corev1.Volume
	// Mounts need no volume name; [Apply] sets it.
	Mounts []corev1.VolumeMount
	// Policy applies if a container has another volume at the path of a mount.
	Policy ConflictPolicy
}

// InitContainer is an init container. It has the image, the security context, the CPU and the memory
// of the first training container, which are known to exist and to be allowed.
type InitContainer struct {
	Name    string
	Command []string
	// Env are the only variables of the container.
	Env    []Env
	Mounts []corev1.VolumeMount
	// Sidecar is true for a container that runs until the other containers terminate (KEP-753, GA in
	// 1.33).
	Sidecar bool
}

// Resource is an amount of an extended resource.
type Resource struct {
	Name  corev1.ResourceName
	Count int64
}

// Program is a program that the injected containers run from the user's image.
type Program struct {
	Name string
	// Package is the package of Debian that contains the program.
	Package string
	// Absence is the consequence of an image without the program.
	Absence string
}

// Children are the objects that a gang needs in addition to its workloads. Admission must not have
// side effects, so the reconciler creates them.
type Children struct {
	// Service is the headless Service; nil if the gang does not need a Service.
	Service *Service
	// KeyPairSecret is the name of the Secret with the SSH key pair of the gang; empty if the gang does
	// not need keys.
	KeyPairSecret string
}

// Service is a headless Service. It publishes the DNS names of ranks before they are ready, because
// ranks need each other to become ready.
type Service struct {
	Name     string
	PortName string
	Port     int32
	// Selector selects the gang's pods whose names the Service publishes.
	Selector map[string]string
}

// expectedClaims is the number of variables, labels, volumes and resources of a usual plan, for which memory is
// reserved.
const expectedClaims = 28

// Merge combines plans. It returns an error if two plans set the same variable, label, volume or
// resource, which is a bug in an injector.
func Merge(plans ...Plan) (Plan, error) {
	var merged Plan
	type claimed struct{ kind, name string }
	claimedBy := make(map[claimed]string, expectedClaims)
	claim := func(kind, name, injector string) error {
		key := claimed{kind, name}
		if other, ok := claimedBy[key]; ok {
			return fmt.Errorf("merging plans: %s %s is claimed by %s and by %s", kind, name, other, injector)
		}
		claimedBy[key] = injector
		return nil
	}
	envCount := 0
	for i := range plans {
		envCount += len(plans[i].Env)
	}
	merged.Env = slices.Grow(merged.Env, envCount)
	for _, p := range plans {
		if err := p.registerClaims(claim); err != nil {
			return Plan{}, err
		}
		merged.Injector, merged.Build = cmp.Or(merged.Injector, p.Injector), cmp.Or(merged.Build, p.Build)
		merged.Env = append(merged.Env, p.Env...)
		merged.PodLabels = append(merged.PodLabels, p.PodLabels...)
		merged.Volumes = append(merged.Volumes, p.Volumes...)
		merged.Resources = append(merged.Resources, p.Resources...)
		merged.InitContainers = append(merged.InitContainers, p.InitContainers...)
		merged.DNSSearches = append(merged.DNSSearches, p.DNSSearches...)
		merged.Command = append(merged.Command, p.Command...)
		merged.Programs = append(merged.Programs, p.Programs...)
		merged.RestartInPlace = merged.RestartInPlace || p.RestartInPlace
		merged.JobFailureLimit = max(merged.JobFailureLimit, p.JobFailureLimit)
		merged.CompleteWithFirstPod = merged.CompleteWithFirstPod || p.CompleteWithFirstPod
		merged.Children.KeyPairSecret = cmp.Or(merged.Children.KeyPairSecret, p.Children.KeyPairSecret)
		if p.Children.Service != nil {
			merged.Children.Service = p.Children.Service
		}
	}
	return merged, nil
}

// registerClaims calls claim for everything that the plan sets.
func (p Plan) registerClaims(claim func(kind, name, injector string) error) error {
	var errs []error
	claimAll := func(kind string, names ...string) {
		for _, name := range names {
			if err := claim(kind, name, p.Injector); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for _, e := range p.Env {
		claimAll("variable", e.Name)
	}
	for _, l := range p.PodLabels {
		claimAll("label", l.Name)
	}
	for _, v := range p.Volumes {
		claimAll("volume", v.Name)
	}
	for _, i := range p.InitContainers {
		claimAll("init container", i.Name)
	}
	for _, r := range p.Resources {
		claimAll("resource", string(r.Name))
	}
	claimAll("search domain", p.DNSSearches...)
	if len(p.Command) > 0 {
		claimAll("command", "")
	}
	if p.Children.KeyPairSecret != "" {
		claimAll("key pair", p.Children.KeyPairSecret)
	}
	if s := p.Children.Service; s != nil {
		claimAll("service", s.Name)
	}
	return errors.Join(errs...)
}
