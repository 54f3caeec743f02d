package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

const (
	// programFaultTimeout and nodeFaultTimeout are how long a system has until all ranks train again.
	programFaultTimeout = 4 * time.Minute
	nodeFaultTimeout    = 10 * time.Minute
)

// peerFault is a fault of each gang.
type peerFault struct {
	name    string
	ranks   int32
	timeout time.Duration
	// prepare changes the pods of all gangs; nil for none.
	prepare func(r *peerRun, t *testing.T, spec *corev1.PodSpec)
	// cause causes the fault, when all gangs train; nil if the gangs start with the fault.
	cause func(r *peerRun, t *testing.T)
	undo  func(r *peerRun, t *testing.T)
}

// peerRun is a fault of the gangs of all peers.
type peerRun struct {
	*testCluster
	gangs []*peerResult
	// node is the node that fails, or that fails its check.
	node    string
	devices *deviceServer
	// bad contains the nodes and devices on which no rank may train after the fault.
	bad   map[string]bool
	start time.Time
}

// peerResult is a gang of a peer, its results, and how long it needed until all ranks trained again.
type peerResult struct {
	peer
	ns, dir string
	ranks   int32
	// session is what all ranks had in common before the fault.
	session string
	elapsed time.Duration
}

// rankState is what a rank writes after each step; see testdata/peer_faults.
type rankState struct{ Session, Pod, Node, Device string }

var peerFaults = []peerFault{
	{name: "A rank exits", ranks: 3, timeout: programFaultTimeout, cause: causeInProgram("exit")},
	{name: "A rank exceeds its memory", ranks: 3, timeout: programFaultTimeout, cause: causeInProgram("memory")},
	{name: "A rank hangs in its data loader", ranks: 8, timeout: programFaultTimeout, cause: causeInProgram("hang")},
	{name: "The processes of a rank are frozen", ranks: 3, timeout: programFaultTimeout, cause: (*peerRun).freezeRank},
	{
		name: "A check of a node fails", ranks: 3, timeout: programFaultTimeout,
		prepare: (*peerRun).addPreflight,
	},
	{
		name: "A device is unhealthy", ranks: 3, timeout: programFaultTimeout,
		prepare: (*peerRun).requestDevices, cause: (*peerRun).markDevicesUnhealthy,
	},
	{
		name: "A node is killed", ranks: 3, timeout: nodeFaultTimeout, prepare: spreadOverNodes,
		cause: func(r *peerRun, t *testing.T) { r.loseNode(t, r.KillNode) },
		undo: func(r *peerRun, t *testing.T) {
			r.restoreLostNode(t, r.node, func(ctx context.Context) error { return r.StartNode(ctx, r.node) })
		},
	},
	{
		name: "A node is cut off", ranks: 3, timeout: nodeFaultTimeout, prepare: spreadOverNodes,
		cause: func(r *peerRun, t *testing.T) { r.loseNode(t, r.CutNode) },
		undo: func(r *peerRun, t *testing.T) {
			r.restoreLostNode(t, r.node, func(context.Context) error { return r.HealNode(r.node) })
		},
	},
}

// TestPeerFaults prints how long gangs of Rollcall, JobSet and Trainer need on three nodes until all ranks train again
// after a fault. All of them have the fault at the same time.
func TestPeerFaults(t *testing.T) {
	skipUnlessFaultBenchmark(t)
	s := requireCluster(t)
	for _, start := range []func(*cluster.Cluster, context.Context) error{
		(*cluster.Cluster).StartJobSet, (*cluster.Cluster).StartTrainer,
	} {
		if err := start(s.Cluster, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.addNode(t)
	node := s.addNode(t)
	s.loadManagerImage(t)
	for _, f := range peerFaults {
		t.Run(f.name, func(t *testing.T) {
			r := &peerRun{testCluster: s, node: node, bad: map[string]bool{}, start: time.Now()}
			if f.undo != nil {
				t.Cleanup(func() { f.undo(r, t) })
			}
			for _, p := range peers {
				r.createGang(t, p, f)
			}
			if f.cause != nil {
				r.waitForFirstSessions(t)
				r.start = time.Now()
				f.cause(r, t)
			}
			r.observeRecovery(t, f.timeout)
			r.logResults(t, f)
		})
	}
}

// createGang creates a gang of a peer in a namespace of its own.
func (r *peerRun) createGang(t *testing.T, p peer, f peerFault) {
	t.Helper()
	program, err := os.ReadFile(filepath.Join("testdata", "peer_faults", "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	g := &peerResult{peer: p, ns: r.createNamespace(t), dir: t.TempDir(), ranks: f.ranks}
	r.createProgram(t, g.ns, "train.py", string(program))
	spec := r.newPeerPodSpec(t, g.dir)
	if f.prepare != nil {
		f.prepare(r, t, &spec)
	}
	r.gangs = append(r.gangs, g)
	p.create(r, t, peerGang{ns: g.ns, ranks: f.ranks, spec: spec})
}

// newPeerPodSpec returns the spec of a pod whose ranks write to a directory.
func (r *peerRun) newPeerPodSpec(t *testing.T, dir string) corev1.PodSpec {
	t.Helper()
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	spec := r.newPodSpec("python3", "train.py")
	spec.TerminationGracePeriodSeconds = ptr.To[int64](5) // the program does not handle SIGTERM
	mountDirectory(t, &spec, "results", dir)
	c := &spec.Containers[0]
	c.Env = []corev1.EnvVar{
		{Name: "OMP_NUM_THREADS", Value: "1"}, {Name: "POD_NAME", ValueFrom: field("metadata.name")},
		{Name: "NODE_NAME", ValueFrom: field("spec.nodeName")},
	}
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	return spec
}

// readStates returns the states of the ranks that were written after a time.
func (g *peerResult) readStates(t *testing.T, since time.Time) []rankState {
	t.Helper()
	var out []rankState
	for rank := range g.ranks {
		file := filepath.Join(g.dir, fmt.Sprintf("rank-%d", rank))
		info, err := os.Stat(file)
		if err != nil || info.ModTime().Before(since) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var state rankState
		if err := json.Unmarshal(text, &state); err != nil {
			t.Fatal(err)
		}
		out = append(out, state)
	}
	return out
}

// findSession returns what all ranks have in common if all of them train together; empty otherwise.
func (g *peerResult) findSession(states []rankState) string {
	if int32(len(states)) < g.ranks {
		return ""
	}
	for _, s := range states {
		if s.Session != states[0].Session {
			return ""
		}
	}
	return states[0].Session
}

// waitForFirstSessions waits until all gangs train.
func (r *peerRun) waitForFirstSessions(t *testing.T) {
	t.Helper()
	for _, g := range r.gangs {
		wait.For(t, "all ranks of "+g.name, func(context.Context) error {
			states := g.readStates(t, r.start)
			if g.session = g.findSession(states); g.session == "" {
				return fmt.Errorf("the ranks have the states %+v", states)
			}
			return nil
		})
	}
}

// observeRecovery records when all ranks of each gang train together again, on good nodes and devices. It ends when all
// gangs do, or after a timeout.
func (r *peerRun) observeRecovery(t *testing.T, timeout time.Duration) {
	t.Helper()
	for time.Since(r.start) < timeout {
		waiting := 0
		for _, g := range r.gangs {
			if g.elapsed == 0 && r.hasRecovered(t, g) {
				g.elapsed = time.Since(r.start)
			}
			if g.elapsed == 0 {
				waiting++
			}
		}
		if waiting == 0 {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (r *peerRun) hasRecovered(t *testing.T, g *peerResult) bool {
	t.Helper()
	states := g.readStates(t, r.start)
	session := g.findSession(states)
	isBad := func(s rankState) bool { return r.bad[s.Node] || r.bad[s.Device] }
	return session != "" && session != g.session && !slices.ContainsFunc(states, isBad)
}

// logResults prints the row of a fault. Rollcall with its settings must have recovered.
func (r *peerRun) logResults(t *testing.T, f peerFault) {
	t.Helper()
	cells := []string{f.name}
	for i, g := range r.gangs {
		attempts, err := g.countAttempts(r, t.Context(), g.ns)
		if err != nil {
			t.Error(err)
		}
		cell := fmt.Sprintf("%.0f s, %d", g.elapsed.Seconds(), attempts)
		if g.elapsed == 0 {
			cell = fmt.Sprintf("not in %.0f min, %d", f.timeout.Minutes(), attempts)
		}
		cells = append(cells, cell)
		if i == 0 && g.elapsed == 0 {
			t.Errorf("%s: the ranks have the states %+v", g.name, g.readStates(t, r.start))
		}
		if i < 2 {
			r.logStatus(t, g.ns, "train")
		}
	}
	t.Logf("| %s |", strings.Join(cells, " | "))
}

// causeInProgram makes rank 1 of each gang fail in a way that the program knows.
func causeInProgram(kind string) func(*peerRun, *testing.T) {
	return func(r *peerRun, t *testing.T) {
		t.Helper()
		for _, g := range r.gangs {
			g.writeFault(t, 1, kind)
		}
	}
}

// writeFault makes a rank fail in a way that the program knows.
func (g *peerResult) writeFault(t *testing.T, rank int, kind string) {
	t.Helper()
	file := filepath.Join(g.dir, fmt.Sprintf("fault-%d", rank))
	if err := os.WriteFile(file, []byte(kind), 0o644); err != nil { // the ranks run as another user
		t.Fatal(err)
	}
}

// freezeRank stops all processes of rank 1 of each gang.
func (r *peerRun) freezeRank(t *testing.T) {
	t.Helper()
	for _, g := range r.gangs {
		if err := r.FreezePod(t.Context(), g.ns, g.readStates(t, time.Time{})[1].Pod); err != nil {
			t.Fatal(err)
		}
	}
}

// addPreflight adds an init container that fails on the bad node.
func (r *peerRun) addPreflight(t *testing.T, spec *corev1.PodSpec) {
	t.Helper()
	spreadOverNodes(r, t, spec)
	r.bad[r.node] = true
	check := *spec.Containers[0].DeepCopy()
	check.Name = "check-node"
	check.Command = []string{"sh", "-c", fmt.Sprintf(`test "$NODE_NAME" != %s || { echo "$NODE_NAME is slow"; exit %d; }`,
		r.node, gang.PreflightNodeFailed)}
	spec.InitContainers = []corev1.Container{check}
}

// spreadOverNodes places a rank on each node that works.
func spreadOverNodes(_ *peerRun, t *testing.T, spec *corev1.PodSpec) {
	t.Helper()
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector:    &metav1.LabelSelector{MatchLabels: peerLabels},
		NodeTaintsPolicy: ptr.To(corev1.NodeInclusionPolicyHonor),
	}}
}

// loseNode loses the node, on which each gang has a rank.
func (r *peerRun) loseNode(t *testing.T, lose func(string) error) {
	t.Helper()
	for _, g := range r.gangs {
		onNode := func(s rankState) bool { return s.Node == r.node }
		if states := g.readStates(t, time.Time{}); !slices.ContainsFunc(states, onNode) {
			t.Fatalf("%s has no rank on the node: %+v", g.name, states)
		}
	}
	if err := lose(r.node); err != nil {
		t.Fatal(err)
	}
}

// requestDevices makes each rank request a device, of which only one node has some.
func (r *peerRun) requestDevices(t *testing.T, spec *corev1.PodSpec) {
	t.Helper()
	if r.devices == nil {
		const devices = 16
		r.devices = startDevicePlugin(t, devices)
		r.waitForDevices(t, r.node, devices)
	}
	spec.Containers[0].Resources.Limits[deviceName] = resource.MustParse("1")
}

// markDevicesUnhealthy marks the device of rank 1 of each gang.
func (r *peerRun) markDevicesUnhealthy(t *testing.T) {
	t.Helper()
	for _, g := range r.gangs {
		id := g.readStates(t, time.Time{})[1].Device
		r.bad[id] = true
		r.devices.markUnhealthy(id)
	}
}
