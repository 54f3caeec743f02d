package e2e

import (
	"context"
	"maps"
	"testing"
	"time"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// faultGang is a gang that trains on three nodes until a node fails. Its programs are in testdata/faults.
type faultGang struct {
	name, framework string
	image           cluster.ImageSource
	// roles are the Jobs of the gang; one without a name for a gang of one workload. The first one prints the result.
	roles       []faultRole
	annotations map[string]string
	// result is the sum over all steps and ranks.
	result string
	// elastic means that the gang may continue in the same attempt.
	elastic bool
	// statefulSet means that the workload is a StatefulSet. On a lost node, it waits for an administrator.
	statefulSet bool
}

type faultRole struct {
	name    string
	ranks   int32
	command []string
}

// faultGangs returns the gangs. With n ranks, the result is 820*n*(n+1)/2 after 40 steps, and 7260*n*(n+1)/2 after 120.
// The elastic gang is the last one, because its first attempt ends as well.
func faultGangs() []faultGang {
	gloo := []faultRole{{ranks: 3, command: []string{"python3", "train_torch.py"}}}
	torchrun := []string{"python3", "-m", "torch.distributed.run", "train_torch.py"}
	hosts := map[string]string{gang.AnnotationRoles: "launcher=1,worker=2", gang.AnnotationSlotsPerWorker: "1"}
	launched := []faultRole{
		{gang.RoleLauncher, 1, []string{"mpirun", "-x", "HOLD", "-np", "2", "python3", "/program/train_mpi.py"}},
		{"worker", 2, nil},
	}
	withAgent := maps.Clone(hosts)
	withAgent[gang.AnnotationLaunch] = string(gang.LaunchAgent)
	server := []string{"python3", "train_tensorflow.py"}
	return []faultGang{
		{
			name: "gloo", framework: "pytorch", image: cluster.Torch, result: "4920", roles: gloo,
		},
		{
			name: "statefulset", framework: "pytorch", image: cluster.Torch, result: "4920", roles: gloo, statefulSet: true,
		},
		{
			name: "torchrun", framework: "pytorch", image: cluster.Torch, result: "17220",
			annotations: map[string]string{gang.AnnotationNprocPerNode: "2"},
			roles:       []faultRole{{ranks: 3, command: torchrun}},
		},
		{
			name: "mpi", framework: "mpi", image: cluster.OpenMPI5, result: "2460", roles: launched, annotations: hosts,
		},
		{
			name: "agent", framework: "mpi", image: withoutSSH(cluster.OpenMPI5), result: "2460",
			roles: launched, annotations: withAgent,
		},
		{
			name: "tensorflow", framework: "tensorflow", image: cluster.TensorFlow, result: "820",
			annotations: map[string]string{gang.AnnotationRoles: "chief=1,worker=2,ps=1"},
			roles:       []faultRole{{"chief", 1, server}, {"worker", 2, server}, {"ps", 1, server}},
		},
		{
			name: "jax", framework: "jax", image: cluster.JAX, result: "4920",
			roles: []faultRole{{ranks: 3, command: []string{"python3", "train_jax.py"}}},
		},
		{
			name: "elastic", framework: "pytorch", image: cluster.Torch, result: "43560", elastic: true,
			annotations: map[string]string{
				// With the default, the ranks that lose the store of torchrun without a packet wait until TCP gives up.
				gang.AnnotationElastic: "2:3", gang.AnnotationRestartPolicy: string(gang.RestartPolicyGang),
			},
			roles: []faultRole{{ranks: 3, command: torchrun}},
		},
	}
}

// TestNodeFaults trains on three nodes with each kind of framework, while nothing happens, and while a node is drained,
// killed or cut. Each gang ends with the right result after one disruption, and an elastic gang after at most one. The
// gang with a StatefulSet waits on a lost node until it is confirmed that its pod does not run.
func TestNodeFaults(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	s.addNode(t)
	node := s.addNode(t)
	images := s.loadFaultImages(t)
	for _, c := range []struct {
		name       string
		fail, undo func(context.Context) error
		// confirm confirms that the processes of a lost node do not run.
		confirm func(*testing.T)
	}{
		{name: "nothing happens"},
		{
			name: "a node is drained",
			fail: func(ctx context.Context) error { return s.DrainNode(ctx, node) },
			undo: func(ctx context.Context) error { return s.UncordonNode(ctx, node) },
		},
		{
			name:    "a node is killed",
			fail:    func(context.Context) error { return s.KillNode(node) },
			undo:    func(ctx context.Context) error { return s.StartNode(ctx, node) },
			confirm: func(t *testing.T) { s.taintOutOfService(t, node) },
		},
		{
			name: "a node is cut",
			fail: func(context.Context) error { return s.CutNode(node) },
			undo: func(context.Context) error { return s.HealNode(node) },
			confirm: func(t *testing.T) {
				if err := s.HealNode(node); err != nil { // its kubelet terminates the pod
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.newFaultRun(t, node)
			r.createGangs(t, images, c.fail != nil)
			if c.fail != nil {
				r.release(t)
				r.start, r.disruptions = time.Now(), 1
				t.Cleanup(func() { s.restoreLostNode(t, node, c.undo) })
				if err := c.fail(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			r.waitForGangs(t, c.confirm)
			for _, g := range r.gangs {
				r.checkGang(t, g)
			}
		})
	}
}

// loadFaultImages returns the image of each gang. The agent is in the image of the manager.
func (s *testCluster) loadFaultImages(t *testing.T) map[string]string {
	t.Helper()
	s.loadManagerImage(t)
	images := map[string]string{}
	for _, g := range faultGangs() {
		image, err := s.LoadImage(t.Context(), g.image)
		if err != nil {
			t.Fatal(err)
		}
		images[g.name] = image
	}
	return images
}

// loadManagerImage loads the image with the agent into the nodes that a test has added.
func (s *testCluster) loadManagerImage(t *testing.T) {
	t.Helper()
	manager, err := installation.NewManagerImage()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LoadImage(t.Context(), manager); err != nil {
		t.Fatal(err)
	}
}
