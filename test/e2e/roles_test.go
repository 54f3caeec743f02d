package e2e

import (
	"regexp"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
)

// TestTensorFlowParameterServer runs the seed's TFJob as three Jobs: workers, a parameter server,
// and additionally a chief. The Jobs are injected independently of each other.
func TestTensorFlowParameterServer(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), cluster.TensorFlow)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.applyExample(t, ns, "tensorflow/parameter-server", image, restrictedPatches...)
	s.waitForTerminalPhase(t, ns, "train-ps-chief", lifecycle.Succeeded)
	// The success of the chief completes the gang, regardless of the other roles.
	s.waitForTerminalPhase(t, ns, "train-ps-ps", lifecycle.Succeeded)
	logs := s.readLogsByRole(t, ns, "train-ps")
	result := regexp.MustCompile(
		`(?m)^chief of 2 workers: (\d+) steps, loss (\S+) -> (\S+)$`,
	).FindStringSubmatch(logs["chief-0"])
	if result == nil {
		t.Fatalf("the chief did not print its result:\n%s", logs["chief-0"])
	}
	if !(parseFloat(t, result[3]) < parseFloat(t, result[2])) {
		t.Errorf("the loss did not decrease: %s", result[0])
	}
	if want := "variables on /job:ps/replica:0/task:0"; !strings.Contains(logs["chief-0"], want) {
		t.Errorf("the chief did not print %q:\n%s", want, logs["chief-0"])
	}
	for pod, want := range map[string]string{
		"worker-0": "worker 0 serves",
		"worker-1": "worker 1 serves",
		"ps-0":     "ps 0 serves",
	} {
		if !strings.Contains(logs[pod], want) {
			t.Errorf("%s did not print %q:\n%s", pod, want, logs[pod])
		}
	}
}

// TestPyTorchMaster runs a Job for each replica type of a PyTorchJob. The ranks of the workers
// start after the rank of the master, which their environment cannot compute.
func TestPyTorchMaster(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "meet.py", allReduceProgram)
	// The success of the master completes the gang. Without cleanPodPolicy none, running workers
	// would be deleted with their logs.
	roles := map[string]string{gang.AnnotationRoles: "master=1,worker=2", gang.AnnotationCleanPodPolicy: "none"}
	spec := s.newPodSpec("python3", "meet.py")
	s.createMemberJob(t, ns, "train", "worker", 2, roles, spec)
	s.createMemberJob(t, ns, "train", "master", 1, roles, spec)
	s.waitForTerminalPhase(t, ns, "train-master", lifecycle.Succeeded)
	s.waitForTerminalPhase(t, ns, "train-worker", lifecycle.Succeeded)
	logs := s.readLogsByRole(t, ns, "train")
	for pod, want := range map[string]string{
		"master-0": "process 0 of 3 sum 3 on train-master-0",
		"worker-0": "process 1 of 3 sum 3 on train-worker-0",
		"worker-1": "process 2 of 3 sum 3 on train-worker-1",
	} {
		if !strings.Contains(logs[pod], want) {
			t.Errorf("%s did not print %q:\n%s", pod, want, logs[pod])
		}
	}
}
