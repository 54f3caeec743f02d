package e2e

import (
	"regexp"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// TestTensorFlowParameterServer is the shape of the seed's TFJob: workers and a
// parameter server, here under a chief, in three Jobs that know of each other only
// what stands in their own texts.
func TestTensorFlowParameterServer(t *testing.T) {
	slow(t)
	s := here(t)
	image, err := s.LoadImage(t.Context(), cluster.TensorFlow)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.namespace(t)
	s.apply(t, ns, "tensorflow/parameter-server", image, unprivileged...)
	s.phase(t, ns, "train-ps-chief", gang.Succeeded)
	// The chief's end is the gang's, whatever the others do then.
	s.phase(t, ns, "train-ps-ps", gang.Succeeded)
	logs := s.roleLogs(t, ns, "train-ps")
	said := regexp.MustCompile(`(?m)^chief of 2 workers: (\d+) steps, loss (\S+) -> (\S+)$`).FindStringSubmatch(logs["chief-0"])
	if said == nil {
		t.Fatalf("the chief did not say how it ended:\n%s", logs["chief-0"])
	}
	if !(number(t, said[3]) < number(t, said[2])) {
		t.Errorf("the loss did not fall: %s", said[0])
	}
	if want := "variables on /job:ps/replica:0/task:0"; !strings.Contains(logs["chief-0"], want) {
		t.Errorf("the chief did not print %q:\n%s", want, logs["chief-0"])
	}
	for pod, want := range map[string]string{"worker-0": "worker 0 serves", "worker-1": "worker 1 serves", "ps-0": "ps 0 serves"} {
		if !strings.Contains(logs[pod], want) {
			t.Errorf("%s did not print %q:\n%s", pod, want, logs[pod])
		}
	}
}

// TestPyTorchMaster gives PyTorchJob's two replica types a Job each. The workers'
// ranks begin after the master's, which their env cannot compute.
func TestPyTorchMaster(t *testing.T) {
	s := here(t)
	ns := s.namespace(t)
	s.program(t, ns, "meet.py", meet)
	// The master's end is the gang's: without the second, a worker that has not ended by then goes, and with it its log.
	roles := map[string]string{gang.AnnotationRoles: "master=1,worker=2", gang.AnnotationCleanPods: "none"}
	spec := s.podSpec("python3", "meet.py")
	s.member(t, ns, "train", "worker", 2, roles, spec)
	s.member(t, ns, "train", "master", 1, roles, spec)
	s.phase(t, ns, "train-master", gang.Succeeded)
	s.phase(t, ns, "train-worker", gang.Succeeded)
	logs := s.roleLogs(t, ns, "train")
	for pod, want := range map[string]string{
		"master-0": "process 0 of 3 sum 3 on train-master-0", "worker-0": "process 1 of 3 sum 3 on train-worker-0", "worker-1": "process 2 of 3 sum 3 on train-worker-1",
	} {
		if !strings.Contains(logs[pod], want) {
			t.Errorf("%s did not print %q:\n%s", pod, want, logs[pod])
		}
	}
}
