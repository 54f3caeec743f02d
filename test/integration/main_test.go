package integration

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"rollcall.training/test/cluster"
)

const (
	// maxParallelTests is the number of parallel tests and cases. They mostly wait for back-offs and controllers and
	// use little CPU. It is larger than the number of clusters of all tests, because a test that waits for
	// clusterSlots counts.
	maxParallelTests = 44
	// maxClusters is the number of clusters that run at the same time. Each needs about 1 GiB of memory.
	maxClusters = 3
)

// clusterSlots has an element for each running cluster.
var clusterSlots = make(chan struct{}, maxClusters)

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(maxParallelTests)); err != nil {
			panic(err)
		}
	}
	if os.Getenv(cluster.ExistingClusterEnv) != "" {
		clusterSlots = make(chan struct{}, 1) // the tests share a cluster
	}
	os.Exit(m.Run())
}

// startCluster starts a cluster for a test, in parallel with other tests. It waits until fewer than maxClusters
// run. The cluster stops at the end of the test.
func startCluster(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	t.Parallel()
	return startNextCluster(t, options)
}

// startNextCluster starts a cluster as startCluster does, for a test that is parallel already.
func startNextCluster(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	clusterSlots <- struct{}{}
	t.Cleanup(func() { <-clusterSlots })
	return cluster.Start(t, options)
}
