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

// Cluster is a running cluster. Its methods are safe for concurrent use, except those that start or
// stop processes: Down, RestartAPIServer, RestartExited, and the methods that change nodes.
type Cluster struct {
	dir      string
	options  Options
	progress *progress
	binaries binaryPaths
	config   *rest.Config
	state    *clusterState
	// loadMutex serializes the loading of images. Otherwise containerd would unpack shared layers
	// twice.
	loadMutex sync.Mutex
}

// binaryPaths are the paths of the built programs.
type binaryPaths struct {
	kubernetes, coredns, kwok string
	// assets is a directory with the programs of the control plane; empty if they are parts of kubernetes.
	assets string
}

// Up starts a cluster and returns when it is ready: the API server responds, every namespace gets
// its default ServiceAccount, and all nodes are ready. After an error, nothing keeps running.
//
// Up first removes the leftovers of crashed clusters. The first call also builds the components,
// which takes minutes. Up reports its progress to Options.Progress. Canceling ctx aborts Up but
// does not stop the cluster after Up has returned.
func Up(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.completeAndValidate()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, progress: newProgress(options.Progress)}
	if options.Nodes == Real {
		if err := CanRunReal(); err != nil {
			return nil, err
		}
	}
	if err := c.cleanUpBeforeStart(); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, nil); err != nil {
		return nil, err
	}
	if err := c.acquireNameAndMachine(); err != nil {
		return nil, err
	}
	if err := c.startComponents(ctx); err != nil {
		return nil, errors.Join(err, c.Down(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// acquireNameAndMachine creates the directory of the cluster, which reserves its name. It also
// reserves the machine for a Real cluster.
func (c *Cluster) acquireNameAndMachine() error {
	unlock, err := lockClusters()
	if err != nil {
		return err
	}
	defer unlock()
	base, err := ensureCacheDir("clusters")
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
		if err := acquireMachine(c.dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("cluster %q is already running in %s: stop it first, or use another name",
				c.options.Name, c.dir)
		}
		return fmt.Errorf("creating the directory of the cluster: %w", err)
	}
	for _, sub := range []string{c.pkiDir(), c.LogDir(), filepath.Join(c.dir, "bin")} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return fmt.Errorf("creating the directory of the cluster: %w", err)
		}
	}
	c.state = &clusterState{
		Name: c.options.Name, Nodes: c.options.Nodes, Release: c.options.Release, Created: time.Now().UTC(),
		Detached: c.options.Detached, Owner: currentProcess(),
	}
	return c.state.saveTo(c.dir)
}

// startComponents starts the components in the order of their dependencies.
func (c *Cluster) startComponents(ctx context.Context) error {
	if c.options.Nodes == Real {
		if err := c.progress.runStep("network bridge", c.createNetwork); err != nil {
			return err
		}
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	if err := c.linkKubectl(); err != nil {
		return err
	}
	switch c.options.Nodes {
	case Kwok:
		what := fmt.Sprintf("%d simulated nodes", c.options.KwokNodes)
		return c.progress.runStep(what, func() error { return c.startKwok(ctx) })
	case Real:
		return c.startRealNodes(ctx)
	}
	return nil
}

// startRealNodes starts all real nodes one after the other. Further nodes share the images of the first.
func (c *Cluster) startRealNodes(ctx context.Context) error {
	ca, err := loadAuthority(c.pkiDir(), "ca")
	if err != nil {
		return err
	}
	machine := realNode{clusterDir: c.dir, number: 1}
	if err := c.issueKubeletCertificate(ca, machine); err != nil {
		return err
	}
	if err := c.startNode(ctx, machine); err != nil {
		return err
	}
	if err := c.loadImages(ctx); err != nil {
		return err
	}
	for range c.options.RealNodes - 1 {
		n, err := createRealNodeDir(c.dir)
		if err != nil {
			return err
		}
		if err := c.shareImages(n); err != nil {
			return err
		}
		if err := c.startFurtherNode(ctx, n); err != nil {
			return err
		}
	}
	return c.loadImages(ctx)
}

// loadImages loads the images of the options into all real nodes.
func (c *Cluster) loadImages(ctx context.Context) error {
	for _, image := range c.options.Images {
		if _, err := c.LoadImage(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

// Attach returns a running cluster. The argument is its name, or its directory as Dir returns it.
func Attach(dir string) (*Cluster, error) {
	if !filepath.IsAbs(dir) {
		base, err := ensureCacheDir("clusters")
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(base, dir)
	}
	s, err := loadState(dir)
	if isNotExist(err) {
		return nil, fmt.Errorf("there is no running cluster in %s", dir)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		dir: dir, state: s, progress: newProgress(os.Stderr),
		options: Options{Nodes: s.Nodes, Release: s.Release, Name: s.Name, Detached: s.Detached},
	}
	if c.binaries.kubernetes, err = os.Readlink(filepath.Join(dir, "bin", "kubectl")); err != nil {
		return nil, fmt.Errorf("attaching to the cluster in %s, which did not start completely: %w", dir, err)
	}
	return c, c.loadConfig()
}

// Down stops the cluster and returns when all its processes and files are removed. Only the logs of
// a failed test are kept.
func (c *Cluster) Down(ctx context.Context) error {
	return c.progress.runStep("stopping the cluster "+c.state.Name, func() error {
		return stopCluster(ctx, c.dir, c.state)
	})
}

// stopProcesses terminates the processes of a cluster in reverse order of their start, and waits
// for each. For example, an API server without etcd would hold its port but not respond. hooks run
// before the named process is stopped.
func stopProcesses(s *clusterState, hooks map[string]func() error) error {
	var errs []error
	for _, process := range slices.Backward(s.Processes) {
		if hook := hooks[process.Name]; hook != nil && process.isAlive() {
			errs = append(errs, hook())
		}
		if err := process.terminateProcess(); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", process.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Release returns the Kubernetes release of the cluster.
func (c *Cluster) Release() Release { return c.state.Release }

// Config returns a new client configuration with all permissions and without a rate limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// loadConfig reads the administrator's kubeconfig.
func (c *Cluster) loadConfig() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	config.QPS = -1 // tests measure the cluster, not the client's default limit of 5 requests per second
	c.config = config
	return nil
}

// Kubeconfig returns the path of a kubeconfig with all permissions. The file contains its
// certificates and may be copied.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Name returns the name of the cluster.
func (c *Cluster) Name() string { return c.state.Name }

// Nodes returns the kind of the cluster's nodes.
func (c *Cluster) Nodes() NodeKind { return c.state.Nodes }

// Dir returns the directory of the cluster. Down removes it.
func (c *Cluster) Dir() string { return c.dir }

// LogDir returns the directory with a log for each component, <component>.log.
func (c *Cluster) LogDir() string { return filepath.Join(c.dir, "logs") }

// HostIP returns the address of this machine for pods, and for the API server's calls to webhooks
// on this machine. It is the address of the bridge for Real nodes, and otherwise the loopback
// address.
func (c *Cluster) HostIP() string {
	if c.state.Nodes == Real {
		return bridgeIP
	}
	return loopback
}
