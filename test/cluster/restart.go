package cluster

import (
	"context"
	"fmt"
	"slices"
	"syscall"
)

// RestartAPIServer terminates the API server as an upgrade of the control plane does, starts it again,
// and returns when it is ready. Requests fail meanwhile, and all watches end. It needs the process that
// started the cluster, because only that process knows the flags.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	const name = "kube-apiserver"
	started, ok := c.programs[name]
	if !ok {
		return fmt.Errorf("restarting %s: another process started the cluster", name)
	}
	i := slices.IndexFunc(c.state.Processes, func(p processRecord) bool { return p.Name == name })
	if err := c.state.Processes[i].terminateProcess(); err != nil {
		return fmt.Errorf("restarting %s: %w", name, err)
	}
	if err := c.startProgram(started); err != nil {
		return err
	}
	// The process keeps its place in the list, which determines the order of the shutdown.
	last := len(c.state.Processes) - 1
	c.state.Processes[i] = c.state.Processes[last]
	c.state.Processes = c.state.Processes[:last]
	if err := c.state.saveTo(c.dir); err != nil {
		return err
	}
	return c.waitForAPIServer(ctx)
}

// SignalProgram sends a signal to a component, for example SIGSTOP to CoreDNS so that names are not
// resolved.
func (c *Cluster) SignalProgram(name string, signal syscall.Signal) error {
	for _, process := range c.state.Processes {
		if process.Name == name && process.isAlive() {
			if err := syscall.Kill(process.PID, signal); err != nil {
				return fmt.Errorf("sending a signal to %s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("sending a signal to %s: it is not running", name)
}
