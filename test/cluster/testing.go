package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const (
	// ExistingEnv names a kubeconfig of a running cluster, as "cluster kubeconfig" prints it. Start then uses that
	// cluster if it has the wanted nodes, and leaves it running.
	ExistingEnv = "ROLLCALL_TEST_CLUSTER"

	// shownLines is how much of each log a failed test shows. The whole is kept.
	shownLines = 15
	// keptFailures is how many failed tests' logs are kept: a day's work, at some MB each.
	keptFailures = 20
)

// Start returns a running cluster for a test. It ends with the test; when the test has failed by then, the end of each
// component's log is shown, and the logs are kept and their place is told. A cluster that does not start ends the test.
//
// A test that needs Real nodes asks CanRunReal first, and skips with its answer.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	if options.Progress == nil {
		options.Progress = t.Output()
	}
	existing, err := reuse(options)
	if err != nil {
		t.Fatalf("using the cluster named by %s: %v", ExistingEnv, err)
	}
	if existing != nil {
		return existing
	}
	c, err := Up(t.Context(), options)
	if err != nil {
		t.Fatalf("starting a cluster: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.report()
		}
		// Not the test's context: that one is canceled before cleanup.
		if err := c.Down(context.Background()); err != nil {
			t.Errorf("stopping the cluster: %v", err)
		}
	})
	return c
}

// Main runs the tests of a package with one cluster for all of them, and returns the exit code:
//
//	var shared *cluster.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(cluster.Main(m, cluster.Options{}, func(c *cluster.Cluster) { shared = c }))
//	}
func Main(m *testing.M, options Options, use func(*Cluster)) int {
	c, err := reuse(options)
	if err != nil {
		fmt.Fprintf(os.Stderr, "using the cluster named by %s: %v\n", ExistingEnv, err)
		return 1
	}
	if c != nil {
		use(c)
		return m.Run()
	}
	if c, err = Up(context.Background(), options); err != nil {
		fmt.Fprintf(os.Stderr, "starting a cluster: %v\n", err)
		return 1
	}
	use(c)
	code := m.Run()
	if code != 0 {
		c.report()
	}
	if err := c.Down(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "stopping the cluster: %v\n", err)
		return 1
	}
	return code
}

// reuse returns the cluster that the environment names, if there is one and it will do.
func reuse(options Options) (*Cluster, error) {
	kubeconfig := os.Getenv(ExistingEnv)
	if kubeconfig == "" {
		return nil, nil
	}
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	c, err := Attach(filepath.Dir(kubeconfig))
	if err != nil {
		return nil, err
	}
	special := len(options.APIServerFlags) + len(options.ControllerManagerFlags) + len(options.SchedulerFlags) +
		len(options.FeatureGates)
	if c.state.Nodes != options.Nodes || c.state.Release != options.Release || special > 0 {
		return nil, nil
	}
	c.progress.w = options.Progress
	for _, image := range options.Images {
		if _, err := c.LoadImage(context.Background(), image); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// report shows the end of each log and keeps the logs.
func (c *Cluster) report() {
	for _, process := range c.state.Processes {
		ended := ""
		if !process.alive() {
			ended = " (it has ended)"
		}
		c.progress.line("--- the end of the log of %s%s\n%s", process.Name, ended, tail(process.Log, shownLines))
	}
	kept, err := c.keepLogs()
	if err != nil {
		c.progress.line("the logs are lost: %v", err)
		return
	}
	c.progress.line("--- all logs: %s", kept)
}

// keepLogs moves the logs to where they outlive the cluster. The components go on writing to them.
func (c *Cluster) keepLogs() (string, error) {
	base, err := cacheDir("failed")
	if err != nil {
		return "", err
	}
	kept := filepath.Join(base, time.Now().Format("20060102-150405")+"-"+c.state.Name)
	if err := os.Rename(c.LogDir(), kept); err != nil {
		return "", fmt.Errorf("keeping the logs: %w", err)
	}
	return kept, keepNewest(filepath.Join(base, "*"), keptFailures)
}
