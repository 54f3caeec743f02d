package vet

import (
	"slices"

	"rollcall.training/internal/command"
)

// checkAgent finds a worker that does not run the agent, although its gang uses the agent instead of ssh.
func (w *labeledWorkload) checkAgent(r *reporter, c trainingContainer, programs []command.Program) {
	mayStartAgent := func(p command.Program) bool {
		_, isSSHD := p.SSHD()
		return !isSSHD && w.mayStartSSHD(p)
	}
	if !slices.ContainsFunc(programs, mayStartAgent) {
		r.add(c.commandPath(), "remove command and args, so that the worker runs the agent",
			"the worker runs %s, but the launcher waits for its agent", programs[len(programs)-1].Name)
	}
}
