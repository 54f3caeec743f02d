package injection

import (
	"slices"

	"rollcall.training/plan"
)

func (c *container) readCommand(string) any {
	if len(c.Command) == 0 {
		return nil
	}
	return c.Command
}

func (c *container) removeCommand(string) { c.Command = nil }

// applyCommand sets the command of the first training container, unless the user has set a command or
// arguments. Arguments that the user has added to the command of an earlier injection are for the command of the
// image, so that command is removed.
func (a *applier) applyCommand() {
	if len(a.plan.Command) == 0 {
		return
	}
	c := a.pod.containersByName[a.gang.Containers[0].Name]
	exists := len(c.Command)+len(c.Args) > 0
	isOwned := len(c.Args) == 0 && a.owns(kindCommand, c.Name, "")
	if decide(relate(exists, isOwned, false), plan.KeepUser) == write {
		c.Command = slices.Clone(a.plan.Command)
		a.markApplied(kindCommand, c.Name, "")
	}
}
