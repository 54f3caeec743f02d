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
	// ExistingClusterEnv is the environment variable with the kubeconfig of a running cluster, as
	// "cluster kubeconfig" prints it. Start uses that cluster if it has the wanted nodes, and keeps
	// it running.
	ExistingClusterEnv = "ROLLCALL_TEST_CLUSTER"

	// shownLogLines is the number of lines of each log that a failed test shows. The complete logs
	// are kept.
	shownLogLines = 15
	// maxFailedLogDirs is the number of failed tests whose logs are kept, at a few MB each.
	maxFailedLogDirs = 20
)

// Start returns a running cluster for a test. The cluster stops at the end of the test. If the test
// failed, Start shows the end of each component's log and the directory with the complete logs. If
// the cluster does not start, Start ends the test.
//
// Tests with Real nodes must call CanRunReal first and skip with its error.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	if options.Progress == nil {
		options.Progress = t.Output()
	}
	existing, err := attachExisting(options)
	if err != nil {
		t.Fatalf("using the cluster of %s: %v", ExistingClusterEnv, err)
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
			c.reportLogs()
		}
		// The test's context is canceled before its cleanup functions run.
		if err := c.Down(context.Background()); err != nil {
			t.Errorf("stopping the cluster: %v", err)
		}
	})
	return c
}

// Main runs the tests of a package with one shared cluster, and returns the exit code:
//
//	var shared *cluster.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(cluster.Main(m, cluster.Options{}, func(c *cluster.Cluster) { shared = c }))
//	}
func Main(m *testing.M, options Options, use func(*Cluster)) int {
	c, err := attachExisting(options)
	if err != nil {
		fmt.Fprintf(os.Stderr, "using the cluster of %s: %v\n", ExistingClusterEnv, err)
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
		c.reportLogs()
	}
	if err := c.Down(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "stopping the cluster: %v\n", err)
		return 1
	}
	return code
}

// attachExisting returns the cluster of ExistingClusterEnv if it is set and the cluster meets the
// options. Otherwise it returns nil.
func attachExisting(options Options) (*Cluster, error) {
	kubeconfig := os.Getenv(ExistingClusterEnv)
	if kubeconfig == "" {
		return nil, nil
	}
	options, err := options.completeAndValidate()
	if err != nil {
		return nil, err
	}
	c, err := Attach(filepath.Dir(kubeconfig))
	if err != nil {
		return nil, err
	}
	special := len(options.EtcdFlags) + len(options.APIServerFlags) + len(options.ControllerManagerFlags) +
		len(options.SchedulerFlags) + len(options.FeatureGates)
	hasNodes := c.state.Nodes == options.Nodes && len(c.RealNodes()) == options.RealNodes
	if !hasNodes || c.state.Release != options.Release || special > 0 {
		return nil, nil
	}
	c.progress = newProgress(options.Progress)
	for _, image := range options.Images {
		if _, err := c.LoadImage(context.Background(), image); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// reportLogs shows the end of each log and keeps the logs.
func (c *Cluster) reportLogs() {
	for _, process := range c.state.Processes {
		ended := ""
		if !process.isAlive() {
			ended = " (exited)"
		}
		c.progress.printLine("--- end of the log of %s%s\n%s", process.Name, ended, ReadLastLines(process.Log, shownLogLines))
	}
	kept, err := c.keepLogs()
	if err != nil {
		c.progress.printLine("the logs could not be kept: %v", err)
		return
	}
	c.progress.printLine("--- all logs: %s", kept)
}

// keepLogs moves the logs to a directory that outlives the cluster. The components continue to
// write to them.
func (c *Cluster) keepLogs() (string, error) {
	base, err := ensureCacheDir("failed")
	if err != nil {
		return "", err
	}
	kept := filepath.Join(base, time.Now().Format("20060102-150405")+"-"+c.state.Name)
	if err := os.Rename(c.LogDir(), kept); err != nil {
		return "", fmt.Errorf("keeping the logs: %w", err)
	}
	return kept, keepNewest(filepath.Join(base, "*"), maxFailedLogDirs)
}
