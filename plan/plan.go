package plan

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Plan is what one or more injectors want of a workload. The zero value wants
// nothing.
type Plan struct {
	// By names the injector, for the record that stays on the workload.
	By string
	// Build is that of the engine; see [gang.Config].
	Build string
	// Env goes to every training container and to every init container, in this
	// order. A value may refer by $(NAME) to a variable before it.
	Env []Env
	// PodLabels goes to the pod template.
	PodLabels []Label
	// Volumes goes to the pod template, with their mounts in the training
	// containers.
	Volumes []Volume
	// Inits goes to the pod template, after the init containers that are there.
	Inits []Init
	// Command is what the first training container runs when its user gave it neither
	// command nor arguments; empty leaves it to the image.
	Command []string
	// RestartInPlace lets the training containers of a Job restart within their pods.
	RestartInPlace bool
	// LiftLimits keeps a Job from ending its gang, or from making it wait, because of the
	// number of pods that failed: the gang is restarted as one, and that is counted
	// elsewhere. Limits of the user's own stay.
	LiftLimits bool
	// SuccessOfFirst lets a Job be complete when its first pod has ended well, unless its
	// user has another successPolicy (KEP-3998, GA in 1.33).
	SuccessOfFirst bool
	// Searches are DNS domains in which the pods look for short names.
	Searches []string
	// Resources goes to the training containers, as limit and as request.
	Resources []Resource
	// Children are the objects that the reconciler makes for the gang.
	Children Children
}

// Policy says what holds when the user already chose a value.
type Policy int

const (
	// Own marks what the gang cannot do without, its ranks and addresses: another
	// value is an error. It is the zero value, so that forgetting is strict.
	Own Policy = iota
	// Default marks a tunable: the user's value wins, with a warning.
	Default
	// Yield marks a courtesy: the user's value wins without a word.
	Yield
)

// Env is a variable with its policy.
type Env struct {
	corev1.EnvVar
	Policy Policy
	// Fix tells the user of an Own variable what to do instead of setting it; the
	// zero value means to remove it.
	Fix string
}

// Label is a label on the pod template.
type Label struct {
	Name, Value string
	Policy      Policy
}

// Volume is a volume together with the mounts through which training containers see
// it. One without mounts is there for init containers.
type Volume struct {
	corev1.Volume
	// Mounts are without the volume's name, which is filled in.
	Mounts []corev1.VolumeMount
	// Policy says what holds where a container has something else at a mount's path;
	// what it has stays under each policy but Own, which makes it an error.
	Policy Policy
}

// Init is an init container. It runs the image of the first training container, as
// that container's user and within its CPU and memory: nothing else is known to be
// there, and to be allowed.
type Init struct {
	Name    string
	Command []string
	// Env is for this container alone, which gets no others.
	Env    []Env
	Mounts []corev1.VolumeMount
	// Sidecar is true for a container that runs until the others have ended (KEP-753,
	// GA in 1.33).
	Sidecar bool
}

// Resource is an amount of an extended resource.
type Resource struct {
	Name  corev1.ResourceName
	Count int64
}

// Children are the objects that a gang needs beside its workload. They cannot be
// made at admission, which must have no side effect; the workload names them, and
// the reconciler makes them.
type Children struct {
	// Service is the headless Service; nil when the gang needs none.
	Service *Service
	// KeyPair names the Secret with the key pair by which the gang's pods trust each
	// other; empty when they need none.
	KeyPair string
}

// Service is a headless Service that gives each rank its DNS name before the
// rank is ready: ranks meet in order to become ready.
type Service struct {
	Name     string
	PortName string
	Port     int32
	// Selector selects the gang's pods.
	Selector map[string]string
}

// Merge joins plans into one. Two plans that both claim a variable, label, volume
// or resource are a mistake in an injector, never in a user's input, and give an
// error.
func Merge(plans ...Plan) (Plan, error) {
	var out Plan
	claimed := map[string]string{}
	claim := func(kind, name, by string) error {
		key := kind + " " + name
		if other, taken := claimed[key]; taken {
			return fmt.Errorf("merging plans: %s %s is claimed by %s and by %s", kind, name, other, by)
		}
		claimed[key] = by
		return nil
	}
	for _, p := range plans {
		if err := p.claims(claim); err != nil {
			return Plan{}, err
		}
		out.By, out.Build = cmp.Or(out.By, p.By), cmp.Or(out.Build, p.Build)
		out.Env = append(out.Env, p.Env...)
		out.PodLabels = append(out.PodLabels, p.PodLabels...)
		out.Volumes = append(out.Volumes, p.Volumes...)
		out.Resources = append(out.Resources, p.Resources...)
		out.Inits = append(out.Inits, p.Inits...)
		out.Searches = append(out.Searches, p.Searches...)
		out.Command = append(out.Command, p.Command...)
		out.RestartInPlace = out.RestartInPlace || p.RestartInPlace
		out.LiftLimits = out.LiftLimits || p.LiftLimits
		out.SuccessOfFirst = out.SuccessOfFirst || p.SuccessOfFirst
		out.Children.KeyPair = cmp.Or(out.Children.KeyPair, p.Children.KeyPair)
		if p.Children.Service != nil {
			out.Children.Service = p.Children.Service
		}
	}
	return out, nil
}

// claims reports each thing that the plan asks for.
func (p Plan) claims(claim func(kind, name, by string) error) error {
	var errs []error
	each := func(kind string, names ...string) {
		for _, name := range names {
			errs = append(errs, claim(kind, name, p.By))
		}
	}
	for _, e := range p.Env {
		each("variable", e.Name)
	}
	for _, l := range p.PodLabels {
		each("label", l.Name)
	}
	for _, v := range p.Volumes {
		each("volume", v.Name)
	}
	for _, i := range p.Inits {
		each("init container", i.Name)
	}
	for _, r := range p.Resources {
		each("resource", string(r.Name))
	}
	each("search domain", p.Searches...)
	if len(p.Command) > 0 {
		each("command", "")
	}
	if p.Children.KeyPair != "" {
		each("key pair", p.Children.KeyPair)
	}
	if s := p.Children.Service; s != nil {
		each("service", s.Name)
	}
	return errors.Join(errs...)
}
