package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a running cluster. Its methods may be called from several goroutines, except Down.
type Cluster struct {
	dir      string
	options  Options
	progress *progress
	bin      programs
	config   *rest.Config
	state    *state
	// loading keeps two images from being loaded at once: containerd would unpack shared layers twice.
	loading sync.Mutex
}

// programs are the paths of what we built.
type programs struct {
	kubernetes, coredns, kwok string
}

// Up starts a cluster and returns when it is ready to be used: the API server answers, every namespace gets its
// default ServiceAccount, and all nodes are ready. If that fails, nothing keeps running.
//
// It first takes away what crashed processes left of former clusters. The first time it also builds the components,
// which takes minutes; Options.Progress tells about that. Canceling ctx gives up the start, but does not stop the
// cluster once Up has returned.
func Up(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, progress: &progress{w: options.Progress}}
	if options.Nodes == Real {
		if err := CanRunReal(); err != nil {
			return nil, err
		}
	}
	if err := c.reclaimCrashed(); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	if err := c.claim(); err != nil {
		return nil, err
	}
	if err := c.bringUp(ctx); err != nil {
		return nil, errors.Join(err, c.Down(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// prepare gets all programs, before anything runs that a failure would have to stop.
func (c *Cluster) prepare(ctx context.Context) error {
	kubernetes := kubernetesComponent
	if c.options.Release == Floor {
		kubernetes = floorComponent
	}
	var err error
	if c.bin.kubernetes, err = kubernetes.binary(ctx, c.progress); err != nil {
		return err
	}
	if c.options.Nodes == Kwok {
		if c.bin.kwok, err = kwokComponent.binary(ctx, c.progress); err != nil {
			return err
		}
	}
	if c.options.Nodes == Real {
		if c.bin.coredns, err = corednsComponent.binary(ctx, c.progress); err != nil {
			return err
		}
		return requirePrograms(ctx, c.progress, nodePrograms)
	}
	return nil
}

// Build gets all programs that a cluster of the given options needs, Helm and Kueue, without starting anything. The first
// time it takes minutes, of which Options.Progress tells; tests, whose output is shown at their end, are better run after it.
func Build(ctx context.Context, options Options) error {
	options, err := options.complete()
	if err != nil {
		return err
	}
	c := &Cluster{options: options, progress: &progress{w: options.Progress}}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	for _, tool := range []component{helmComponent, kueueComponent} {
		if _, err := tool.binary(ctx, c.progress); err != nil {
			return err
		}
	}
	return nil
}

// claim makes the cluster's folder and with it takes the cluster's name, and the machine for a Real one.
func (c *Cluster) claim() error {
	unlock, err := lockClusters()
	if err != nil {
		return err
	}
	defer unlock()
	base, err := cacheDir("clusters")
	if err != nil {
		return err
	}
	c.dir = filepath.Join(base, c.options.Name)
	if c.options.Nodes == Real {
		unlock, err := lockMachine()
		if err != nil {
			return err
		}
		defer unlock()
		if err := claimMachine(c.dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("a cluster named %q is running already (its folder is %s): stop it first, or take another name",
				c.options.Name, c.dir)
		}
		return fmt.Errorf("making the cluster's folder: %w", err)
	}
	for _, sub := range []string{c.pkiDir(), c.LogDir(), filepath.Join(c.dir, "bin")} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
	}
	c.state = &state{
		Name: c.options.Name, Nodes: c.options.Nodes, Release: c.options.Release, Created: time.Now().UTC(),
		Detached: c.options.Detached, Owner: self(),
	}
	return c.state.save(c.dir)
}

// bringUp starts everything, each once what it needs is ready.
func (c *Cluster) bringUp(ctx context.Context) error {
	if c.options.Nodes == Real {
		if err := c.progress.do("network bridge", c.makeNetwork); err != nil {
			return err
		}
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	if err := c.linkTools(); err != nil {
		return err
	}
	switch c.options.Nodes {
	case Kwok:
		what := fmt.Sprintf("%d simulated nodes", c.options.KwokNodes)
		return c.progress.do(what, func() error { return c.startKwok(ctx) })
	case Real:
		if err := c.startNode(ctx); err != nil {
			return err
		}
		for _, image := range c.options.Images {
			if _, err := c.LoadImage(ctx, image); err != nil {
				return err
			}
		}
	}
	return nil
}

// Attach returns the running cluster in a folder, as Dir returns it, or the one of that name.
func Attach(dir string) (*Cluster, error) {
	if !filepath.IsAbs(dir) {
		base, err := cacheDir("clusters")
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(base, dir)
	}
	s, err := loadState(dir)
	if missing(err) {
		return nil, fmt.Errorf("no cluster runs in %s", dir)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		dir: dir, state: s, progress: &progress{w: os.Stderr},
		options: Options{Nodes: s.Nodes, Release: s.Release, Name: s.Name, Detached: s.Detached},
	}
	if c.bin.kubernetes, err = os.Readlink(filepath.Join(dir, "bin", "kubectl")); err != nil {
		return nil, fmt.Errorf("attaching to the cluster in %s, which did not start completely: %w", dir, err)
	}
	return c, c.loadConfig()
}

// Down stops the cluster and returns when everything is gone. Only the logs of a failed test stay.
func (c *Cluster) Down(ctx context.Context) error {
	return c.progress.do("stopping the cluster "+c.state.Name, func() error { return stopCluster(ctx, c.dir, c.state) })
}

// stopProcesses ends a cluster's processes, the last started first, and waits for each: an API server that outlives
// its etcd, say, holds its port and answers nothing. hook runs before the named process is stopped.
func stopProcesses(s *state, hooks map[string]func() error) error {
	var errs []error
	for _, process := range slices.Backward(s.Processes) {
		if hook := hooks[process.Name]; hook != nil && process.alive() {
			errs = append(errs, hook())
		}
		if err := process.stop(); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", process.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Release says which Kubernetes runs.
func (c *Cluster) Release() Release { return c.state.Release }

// Config returns a client configuration with all rights, and without a limit on the rate of requests. It is the
// caller's own copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// loadConfig reads the administrator's kubeconfig.
func (c *Cluster) loadConfig() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	config.QPS = -1 // Tests measure the cluster, not the client's default of 5 requests a second.
	c.config = config
	return nil
}

// Kubeconfig returns the path of a kubeconfig with all rights. It holds its certificates and may be copied.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Name returns the cluster's name.
func (c *Cluster) Name() string { return c.state.Name }

// Nodes returns which kind of nodes the cluster has.
func (c *Cluster) Nodes() Nodes { return c.state.Nodes }

// Dir returns the cluster's folder. It goes when the cluster is stopped.
func (c *Cluster) Dir() string { return c.dir }

// LogDir returns the folder with one log a component, <component>.log.
func (c *Cluster) LogDir() string { return filepath.Join(c.dir, "logs") }

// HostIP returns the address at which pods reach this machine, and at which the API server reaches a webhook that runs
// on it: the bridge's on Real nodes, otherwise the loopback address.
func (c *Cluster) HostIP() string {
	if c.state.Nodes == Real {
		return bridgeIP
	}
	return loopback
}
