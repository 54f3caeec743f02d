package plan

import "slices"

var commandTargets = targetKind{
	planned: (*applier).plannedCommandTargets,
	apply:   (*applier).applyCommand,
	recorded: func(r *Record, add func(target, string)) {
		for container, digest := range r.Commands {
			add(commandTarget{container}, digest)
		}
	},
}

// commandTarget is the command of a container.
type commandTarget struct{ container string }

func (t commandTarget) currentValue(p *podTemplate) any {
	if c := p.containersByName[t.container]; c != nil && len(c.Command) > 0 {
		return c.Command
	}
	return nil
}

func (t commandTarget) removeFrom(p *podTemplate) {
	if c := p.containersByName[t.container]; c != nil {
		c.Command = nil
	}
}

func (t commandTarget) recordDigest(r *Record, digest string) { r.Commands.set(t.container, digest) }

func (a *applier) plannedCommandTargets() []target {
	if len(a.plan.Command) == 0 {
		return nil
	}
	return []target{commandTarget{a.gang.Containers[0].Name}}
}

// applyCommand sets the command of the first training container, unless the user has set a command
// or arguments.
func (a *applier) applyCommand() {
	if len(a.plan.Command) == 0 {
		return
	}
	c := a.firstTrainingContainer()
	t := commandTarget{c.Name}
	switch {
	case a.owned[t] && len(c.Args) > 0:
		// The user has added arguments since, which are for the command of the image.
		t.removeFrom(a.pod)
		return
	case !a.owned[t] && len(c.Command)+len(c.Args) > 0:
		return
	}
	c.Command = slices.Clone(a.plan.Command)
	a.applied = append(a.applied, t)
}
