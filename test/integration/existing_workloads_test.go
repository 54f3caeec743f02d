package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// existingJob is a Job that was written for a cluster without Rollcall, with the label added.
const existingJob = `
apiVersion: v1
kind: Service
metadata: {name: ranks}
spec: {clusterIP: None, selector: {job-name: train}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {rollcall.training/framework: pytorch}}
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template:
    spec:
      subdomain: ranks
      restartPolicy: Never
      containers:
      - name: trainer
        image: example.com/train:1
        command: [torchrun, --nproc-per-node=4, "--node-rank=$(JOB_COMPLETION_INDEX)", train.py]
        env:
        - {name: MASTER_ADDR, value: train-0.ranks}
        - {name: MASTER_PORT, value: "29500"}
        - {name: RANK, value: "$(JOB_COMPLETION_INDEX)"}
        - {name: WORLD_SIZE, value: "8"}
`

// testExistingJob checks that a Job with its own Service, address, port, rank and world size becomes a
// gang, and that its manifest can be applied again although the template of a Job is immutable.
func testExistingJob(t *testing.T, m *manager, ns string) {
	for range 2 {
		if _, err := m.Cluster.KubectlWithInput(t.Context(), existingJob, "-n", ns, "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	pods := m.waitForPods(t, ns, "train", 2)
	checkIndexVariable(t, pods[1].Spec.Containers[0])
	want := map[string]string{
		"MASTER_ADDR": "train-0.ranks", "MASTER_PORT": "29500", "RANK": "$(JOB_COMPLETION_INDEX)", "WORLD_SIZE": "8",
		"PET_MASTER_ADDR": "train-0.ranks." + ns + ".svc.cluster.local", "PET_MASTER_PORT": "29500",
		"PET_NNODES": "2", "PET_NPROC_PER_NODE": "4",
	}
	got := envByName(pods[1].Spec.Containers[0])
	for name := range got {
		if _, ok := want[name]; !ok {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables of rank 1 (-want +got):\n%s", diff)
	}
	m.setPodPhases(t, pods, corev1.PodRunning)
	m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
}

// checkIndexVariable checks that the variable with the completion index is the first of its container, so
// that the kubelet expands references, and that the Job controller did not add another.
func checkIndexVariable(t *testing.T, c corev1.Container) {
	t.Helper()
	var positions []int
	for i, e := range c.Env {
		if e.Name == gang.EnvCompletionIndex {
			positions = append(positions, i)
		}
	}
	if diff := cmp.Diff([]int{0}, positions); diff != "" {
		t.Errorf("positions of %s (-want +got):\n%s", gang.EnvCompletionIndex, diff)
	}
}

// testServiceFromAddress checks that the Service of an address becomes the subdomain of a Job without a
// subdomain, and gets the port of the address.
func testServiceFromAddress(t *testing.T, m *manager, ns string) {
	job := newJob("train", 2)
	job.Spec.Completions = nil
	c := &job.Spec.Template.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "MASTER_ADDR", Value: "train-0.train-svc"}, {Name: "MASTER_PORT", Value: "1234"}}
	created := m.createJob(t, ns, job)
	if got := created.Spec.Template.Spec.Subdomain; got != "train-svc" {
		t.Errorf("the subdomain is %q", got)
	}
	if created.Spec.Completions == nil || *created.Spec.Completions != 2 {
		t.Errorf("the number of completions is %v", created.Spec.Completions)
	}
	if got := m.waitForService(t, ns, "train-svc").Spec.Ports[0].Port; got != 1234 {
		t.Errorf("the Service has port %d", got)
	}
	denied := newJob("denied", 2)
	denied.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MASTER_ADDR", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
	}}}
	_, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), denied, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "status.podIP is different in each pod; remove the entry") {
		t.Errorf("a Job whose pods connect to themselves was not denied: %v", err)
	}
}
