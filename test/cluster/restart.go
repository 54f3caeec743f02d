package cluster

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// restartTimeout bounds the restart of a component. Unlike at the start of a cluster, all clients connect
// at the same time.
const restartTimeout = 5 * time.Minute

// RestartAPIServer terminates the API server as an upgrade of the control plane does, starts it again,
// and returns when it is ready. Requests fail meanwhile, and all watches end.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	i := slices.IndexFunc(c.state.Processes, func(p processRecord) bool { return p.Name == "kube-apiserver" })
	if err := c.state.Processes[i].terminateProcess(); err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	if err := c.startProgram(c.state.Processes[i].program); err != nil {
		return err
	}
	return c.waitForAPIServer(ctx, restartTimeout)
}

// RestartExited starts the components that have exited, as the kubelet of a control plane does, and
// returns their names. For example, the scheduler exits when it finds that its cache is corrupted, which
// can happen while the API server restarts. It does not start the programs of stopped and killed nodes.
func (c *Cluster) RestartExited() ([]string, error) {
	var names []string
	for _, process := range c.state.Processes {
		if process.isDown || process.isAlive() {
			continue
		}
		if err := c.startProgram(process.program); err != nil {
			return names, err
		}
		names = append(names, process.Name)
	}
	return names, nil
}

// SignalProgram sends a signal to a component, for example SIGSTOP to CoreDNS so that names are not
// resolved.
func (c *Cluster) SignalProgram(name string, signal syscall.Signal) error {
	process, running := c.state.findProcess(name)
	if !running {
		return fmt.Errorf("sending a signal to %s: it is not running", name)
	}
	if err := syscall.Kill(process.PID, signal); err != nil {
		return fmt.Errorf("sending a signal to %s: %w", name, err)
	}
	return nil
}
