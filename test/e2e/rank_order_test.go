package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
)

const (
	rackLabel = "example.com/rack"
	racks     = 3
	ringName  = "ring"
	// ringHosts is the number of hosts with one rank each. Kubernetes spreads each 3 consecutive hosts over the racks, so
	// at least 4 edges cross racks, and a node sends 2 of them.
	ringHosts = 2 * racks
	// minRingGain is less than 2, which the edges of each link predict.
	minRingGain = 1.3
)

// ringResult is the result of testdata/ring.py.
type ringResult struct {
	seconds float64  // of a step
	nodes   []string // in the order of the ranks
}

// TestRankOrderBandwidth runs a ring of ranks on three nodes with slow links. Each node is a rack. In the order of the
// indexes, two edges of the ring share a link. In the order of the network, one edge uses each link.
func TestRankOrderBandwidth(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	s.replaceRelease(t, "--set", "permissions.orderRanks=true")
	for rack := range racks {
		node := s.addNodeWithoutImage(t)
		if _, err := s.Kubectl(t.Context(), "label", "node", node, fmt.Sprintf("%s=r%d", rackLabel, rack)); err != nil {
			t.Fatal(err)
		}
		if err := s.SlowNode(node, cluster.Slowness{Rate: "40mbit"}); err != nil {
			t.Fatal(err)
		}
	}
	image, err := s.LoadImage(t.Context(), cluster.OpenMPI5)
	if err != nil {
		t.Fatal(err)
	}
	byIndex := s.runRing(t, image, map[string]string{})
	byNetwork := s.runRing(t, image, map[string]string{gang.AnnotationRankOrder: rackLabel})
	if got := byIndex.countCrossingEdges(); got <= racks {
		t.Errorf("%d edges cross racks in the order of the indexes, want more than %d", got, racks)
	}
	if got := byNetwork.countCrossingEdges(); got != racks {
		t.Errorf("%d edges cross racks in the order of the network, want %d", got, racks)
	}
	if gain := byIndex.seconds / byNetwork.seconds; gain < minRingGain {
		t.Errorf("the order of the network is %.2f times as fast as that of the indexes, want %.1f", gain, minRingGain)
	}
}

// runRing runs the ring in a gang with further annotations.
func (s *testCluster) runRing(t *testing.T, image string, annotations map[string]string) ringResult {
	t.Helper()
	ns := s.createNamespace(t)
	s.createRing(t, ns, image, annotations)
	s.waitForTerminalPhase(t, ns, ringName+"-launcher", lifecycle.Succeeded)
	r := parseRingResult(t, s.readLauncherLog(t, ns, ringName))
	t.Logf("annotations %v: %d of %d edges cross racks, a step takes %.2f s; ranks on %v",
		annotations, r.countCrossingEdges(), ringHosts, r.seconds, r.nodes)
	return r
}

// createRing creates a gang of MPI whose hosts spread over the racks.
func (s *testCluster) createRing(t *testing.T, ns, image string, annotations map[string]string) {
	t.Helper()
	program, err := os.ReadFile(filepath.Join("testdata", "ring.py"))
	if err != nil {
		t.Fatal(err)
	}
	s.createProgram(t, ns, "ring.py", string(program))
	annotations = maps.Clone(annotations)
	annotations[gang.AnnotationRoles] = fmt.Sprintf("launcher=1,worker=%d", ringHosts)
	annotations[gang.AnnotationSlotsPerWorker] = "1"
	for role, size := range map[string]int32{gang.RoleLauncher: 1, "worker": ringHosts} {
		spec := s.newPodSpec()
		spec.SecurityContext.FSGroup = ptr.To[int64](1000) // for ssh
		c := &spec.Containers[0]
		c.Image = image
		if role == gang.RoleLauncher {
			// Ranks that wait must not need the processor, because all nodes are on this machine.
			c.Command = []string{"mpirun", "--mca", "mpi_yield_when_idle", "1", "-np", strconv.Itoa(ringHosts),
				"python3", "/program/ring.py"}
		} else {
			c.Env = []corev1.EnvVar{{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}}
			spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: rackLabel, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{gang.LabelRole: role}},
			}}
		}
		labels := map[string]string{gang.LabelFramework: "mpi", gang.LabelRole: role}
		s.createLabeledJob(t, ns, ringName+"-"+role, labels, size, annotations, spec)
	}
}

// parseRingResult returns the result in the log of the launcher.
func parseRingResult(t *testing.T, log string) ringResult {
	t.Helper()
	_, line, _ := strings.Cut(log, "result: ")
	line, _, _ = strings.Cut(line, "\n")
	fields := strings.Fields(line)
	if len(fields) != 1+ringHosts {
		t.Fatalf("the launcher did not print the result of %d ranks:\n%s", ringHosts, log)
	}
	return ringResult{seconds: parseFloat(t, fields[0]), nodes: fields[1:]}
}

// countCrossingEdges returns how many neighbors in the ring are on different nodes.
func (r ringResult) countCrossingEdges() int {
	n := 0
	for i, node := range r.nodes {
		if node != r.nodes[(i+1)%len(r.nodes)] {
			n++
		}
	}
	return n
}
