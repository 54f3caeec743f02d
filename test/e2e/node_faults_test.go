package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// faultGang is a gang that trains on three nodes until a node fails. Its programs are in testdata/faults.
type faultGang struct {
	name, framework string
	recipe          cluster.Recipe
	// roles are the Jobs of the gang; one without a name for a gang of one Job. The first one prints the result.
	roles       []faultRole
	annotations map[string]string
	// result is the sum over all steps and ranks.
	result string
	// elastic means that the gang may continue in the same attempt.
	elastic bool
}

type faultRole struct {
	name    string
	ranks   int32
	command []string
}

// faultGangs returns the gangs. With n ranks, the result is 820*n*(n+1)/2 after 40 steps, and 7260*n*(n+1)/2 after 120.
// The elastic gang is the last one, because its first attempt ends as well.
func faultGangs() []faultGang {
	torchrun := []string{"python3", "-m", "torch.distributed.run", "train_torch.py"}
	server := []string{"python3", "train_tensorflow.py"}
	return []faultGang{
		{
			name: "gloo", framework: "pytorch", recipe: cluster.Torch, result: "4920",
			roles: []faultRole{{ranks: 3, command: []string{"python3", "train_torch.py"}}},
		},
		{
			name: "torchrun", framework: "pytorch", recipe: cluster.Torch, result: "17220",
			annotations: map[string]string{gang.AnnotationNprocPerNode: "2"},
			roles:       []faultRole{{ranks: 3, command: torchrun}},
		},
		{
			name: "mpi", framework: "mpi", recipe: cluster.OpenMPI5, result: "2460",
			annotations: map[string]string{gang.AnnotationRoles: "launcher=1,worker=2", gang.AnnotationSlotsPerWorker: "1"},
			roles: []faultRole{
				{gang.RoleLauncher, 1, []string{"sh", "-c",
					"exec mpirun -x HOLD -np 2 python3 /program/train_mpi.py $ROLLCALL_ATTEMPT"}},
				{"worker", 2, nil},
			},
		},
		{
			name: "tensorflow", framework: "tensorflow", recipe: cluster.TensorFlow, result: "820",
			annotations: map[string]string{gang.AnnotationRoles: "chief=1,worker=2,ps=1"},
			roles:       []faultRole{{"chief", 1, server}, {"worker", 2, server}, {"ps", 1, server}},
		},
		{
			name: "jax", framework: "jax", recipe: cluster.JAX, result: "4920",
			roles: []faultRole{{ranks: 3, command: []string{"python3", "train_jax.py"}}},
		},
		{
			name: "elastic", framework: "pytorch", recipe: cluster.Torch, result: "43560", elastic: true,
			annotations: map[string]string{gang.AnnotationElastic: "2:3"},
			roles:       []faultRole{{ranks: 3, command: torchrun}},
		},
	}
}

// TestNodeFaults trains on three nodes with each kind of framework, while nothing happens, and while a node is drained,
// killed or cut. Each gang ends with the right result after one disruption, and an elastic gang after at most one.
func TestNodeFaults(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	s.addNode(t)
	node := s.addNode(t)
	images := map[string]string{}
	for _, g := range faultGangs() {
		image, err := s.LoadImage(t.Context(), g.recipe)
		if err != nil {
			t.Fatal(err)
		}
		images[g.recipe.Name] = image
	}
	for _, c := range []struct {
		name       string
		fail, undo func(context.Context) error
	}{
		{name: "nothing happens"},
		{
			name: "a node is drained",
			fail: func(ctx context.Context) error { return s.DrainNode(ctx, node) },
			undo: func(ctx context.Context) error { return s.UncordonNode(ctx, node) },
		},
		{
			name: "a node is killed",
			fail: func(context.Context) error { return s.KillNode(node) },
			undo: func(ctx context.Context) error { return s.StartNode(ctx, node) },
		},
		{
			name: "a node is cut",
			fail: func(context.Context) error { return s.CutNode(node) },
			undo: func(context.Context) error { return s.HealNode(node) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := s.createNamespace(t)
			s.createFaultPrograms(t, ns)
			for _, g := range faultGangs() {
				if g.elastic {
					s.waitForTraining(t, ns, node, len(faultGangs())-1)
				}
				s.createFaultGang(t, ns, g, images[g.recipe.Name], c.fail != nil)
			}
			start, disruptions := time.Now(), int32(0)
			if c.fail != nil {
				s.waitForTraining(t, ns, node, len(faultGangs()))
				start, disruptions = time.Now(), 1
				t.Cleanup(func() { s.restoreLostNode(t, node, c.undo) })
				if err := c.fail(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.followFaultGangs(t, ns, start, disruptions)
		})
	}
}

// createFaultPrograms creates the ConfigMap of newPodSpec from testdata/faults.
func (s *testCluster) createFaultPrograms(t *testing.T, ns string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "faults", "*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d programs: %v", len(files), err)
	}
	programs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "program"}, Data: map[string]string{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		programs.Data[filepath.Base(file)] = string(text)
	}
	if _, err := s.client.CoreV1().ConfigMaps(ns).Create(t.Context(), programs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createFaultGang creates the Jobs of a gang. Its pods spread over all nodes that work. If it holds, its first attempt
// does not end.
func (s *testCluster) createFaultGang(t *testing.T, ns string, g faultGang, image string, holds bool) {
	t.Helper()
	for _, role := range g.roles {
		spec := s.newPodSpec(role.command...)
		spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
		spec.SecurityContext.FSGroup = ptr.To[int64](1000) // for ssh
		spec.Containers[0].Image = image
		spec.Containers[0].Env = []corev1.EnvVar{{Name: "OMP_NUM_THREADS", Value: "1"}}
		if g.elastic {
			spec.Containers[0].Env = append(spec.Containers[0].Env,
				corev1.EnvVar{Name: "FULL", Value: "3"}, corev1.EnvVar{Name: "STEPS", Value: "120"})
		}
		if holds {
			spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: "HOLD", Value: "1"})
		}
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{gang.LabelGang: g.name}},
			NodeTaintsPolicy: ptr.To(corev1.NodeInclusionPolicyHonor),
		}}
		labels := map[string]string{gang.LabelFramework: g.framework}
		if role.name != "" {
			labels[gang.LabelRole] = role.name
		}
		s.createLabeledJob(t, ns, g.jobName(role), labels, role.ranks, g.annotations, spec)
	}
}

func (g faultGang) jobName(role faultRole) string {
	if role.name == "" {
		return g.name
	}
	return g.name + "-" + role.name
}

// waitForTraining waits until each of the first gangs trains, with a rank on the node.
func (s *testCluster) waitForTraining(t *testing.T, ns, node string, gangs int) {
	t.Helper()
	for _, g := range faultGangs()[:gangs] {
		s.waitForLogText(t, ns, g.name, "trains", 1)
		onNode := 0
		for _, pod := range s.listPods(t, ns, g.name) {
			if pod.Spec.NodeName == node {
				onNode++
			}
		}
		if onNode == 0 {
			t.Fatalf("the gang %s has no rank on the node %s", g.name, node)
		}
	}
}

// faultTimes are the times from the begin of a fault until a gang restarts, until all of its ranks run again, and until
// it has succeeded; zero if the gang did not.
type faultTimes struct{ restarting, running, succeeded time.Duration }

// followFaultGangs waits until all gangs succeed, and checks their results and disruptions.
func (s *testCluster) followFaultGangs(t *testing.T, ns string, start time.Time, disruptions int32) {
	t.Helper()
	times := map[string]*faultTimes{}
	// The wait is repeated for each gang, because all of them need longer than one wait is permitted to take.
	for _, last := range faultGangs() {
		wait.For(t, "the success of "+last.name, func(ctx context.Context) error {
			for _, g := range faultGangs() {
				s.recordFaultTimes(t, ctx, ns, g, time.Since(start), times)
			}
			if times[last.name].succeeded == 0 {
				return fmt.Errorf("%+v", *times[last.name])
			}
			return nil
		})
	}
	for _, g := range faultGangs() {
		status, err := s.readGangStatus(t.Context(), ns, g.jobName(g.roles[0]))
		if err != nil {
			t.Fatal(err)
		}
		v := times[g.name]
		t.Logf("| %s | %.0f s | %.0f s | %.0f s | %d | %s |", g.name, v.restarting.Seconds(), v.running.Seconds(),
			v.succeeded.Seconds(), status.Disruptions, status.FirstFailure)
		isRight := status.Disruptions == disruptions || g.elastic && status.Disruptions < disruptions
		if status.Restarts != 0 || !isRight {
			t.Errorf("%s: %d restarts and %d disruptions, want 0 and %d",
				g.name, status.Restarts, status.Disruptions, disruptions)
		}
		s.checkFaultResult(t, ns, g)
	}
}

// recordFaultTimes reads the status of a gang and records what it reached after an elapsed time.
func (s *testCluster) recordFaultTimes(
	t *testing.T, ctx context.Context, ns string, g faultGang, elapsed time.Duration, times map[string]*faultTimes,
) {
	if times[g.name] == nil {
		times[g.name] = &faultTimes{}
	}
	v := times[g.name]
	status, err := s.readGangStatus(ctx, ns, g.jobName(g.roles[0]))
	if err != nil {
		t.Fatal(err)
	}
	if status.Phase == lifecycle.Failed {
		t.Fatalf("%s failed: %s", g.name, status.Message)
	}
	if status.Disruptions+status.Restarts > 0 {
		v.restarting = cmp.Or(v.restarting, elapsed)
		if status.Phase == lifecycle.Running {
			v.running = cmp.Or(v.running, elapsed)
		}
	}
	if status.Phase == lifecycle.Succeeded {
		v.succeeded = cmp.Or(v.succeeded, elapsed)
	}
}

// checkFaultResult checks that a pod of the first role has printed the result of the gang.
func (s *testCluster) checkFaultResult(t *testing.T, ns string, g faultGang) {
	t.Helper()
	found := false
	for _, pod := range s.listPods(t, ns, g.name) {
		if pod.Status.Phase != corev1.PodSucceeded || pod.Labels[gang.LabelRole] != g.roles[0].name && g.roles[0].name != "" {
			continue
		}
		log := s.readPodLog(t, pod)
		if !strings.Contains(log, "result "+g.result+"\n") {
			t.Errorf("%s: the pod %s did not print the result %s:\n%s", g.name, pod.Name, g.result, log)
		}
		found = true
	}
	if !found {
		t.Errorf("%s: no pod has succeeded", g.name)
	}
}
