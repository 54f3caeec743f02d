package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Plan is what one or more injectors want of a workload. The zero value wants
// nothing.
type Plan struct {
	// By names the injector, for the record that stays on the workload.
	By string
	// Env goes to every training container and to every init container, in this
	// order. A value may refer by $(NAME) to a variable before it.
	Env []Env
	// PodLabels goes to the pod template.
	PodLabels []Label
	// Volumes goes to the pod template, with their mounts in the training
	// containers.
	Volumes []Volume
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

// Volume is a volume together with the path at which training containers see it.
// A container that has something at that path already keeps it.
type Volume struct {
	corev1.Volume
	MountPath string
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
		if out.By == "" {
			out.By = p.By
		}
		out.Env = append(out.Env, p.Env...)
		out.PodLabels = append(out.PodLabels, p.PodLabels...)
		out.Volumes = append(out.Volumes, p.Volumes...)
		out.Resources = append(out.Resources, p.Resources...)
		if p.Children.Service != nil {
			out.Children.Service = p.Children.Service
		}
	}
	return out, nil
}

// claims reports each thing that the plan asks for.
func (p Plan) claims(claim func(kind, name, by string) error) error {
	for _, e := range p.Env {
		if err := claim("variable", e.Name, p.By); err != nil {
			return err
		}
	}
	for _, l := range p.PodLabels {
		if err := claim("label", l.Name, p.By); err != nil {
			return err
		}
	}
	for _, v := range p.Volumes {
		if err := claim("volume", v.Name, p.By); err != nil {
			return err
		}
	}
	for _, r := range p.Resources {
		if err := claim("resource", string(r.Name), p.By); err != nil {
			return err
		}
	}
	if s := p.Children.Service; s != nil {
		return claim("service", s.Name, p.By)
	}
	return nil
}
