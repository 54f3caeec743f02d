package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// multiKueuePage has the policy that MultiKueue needs for gangs that restart.
const multiKueuePage = "docs/tasks/kueue.md"

// twoClusters are a cluster in which users create Jobs, and a cluster in which MultiKueue runs them.
type twoClusters struct{ local, worker *manager }

// TestMultiKueue runs gangs in another cluster.
func TestMultiKueue(t *testing.T) {
	c := startTwoClusters(t)
	cases := map[string]func(*testing.T, twoClusters, string){
		"Succeeds": testMultiKueueSucceeds,
		"Fails":    testMultiKueueFails,
	}
	if supportsMutatingPolicies(c.local.Cluster) {
		c.local.applyManifest(t, "", readManifest(t, multiKueuePage, "multikueue.yaml"))
		cases["Restarts"] = testMultiKueueRestarts
	}
	c.local.runParallel(t, adaptCases(c, cases))
}

// adaptCases returns the cases for the cluster in which users create Jobs.
func adaptCases(
	c twoClusters, cases map[string]func(*testing.T, twoClusters, string),
) map[string]func(*testing.T, *manager, string) {
	out := map[string]func(*testing.T, *manager, string){}
	for name, test := range cases {
		out[name] = func(t *testing.T, _ *manager, ns string) { test(t, c, ns) }
	}
	return out
}

// readManifest returns the manifest of a page that starts with the name of its file.
func readManifest(t *testing.T, page, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, found := strings.Cut(string(text), "```yaml\n# "+name+"\n")
	if !found {
		t.Fatalf("%s has no manifest %s", page, name)
	}
	manifest, _, _ = strings.Cut(manifest, "```")
	return manifest
}

// startTwoClusters starts two clusters with Kueue and Rollcall, and connects them.
func startTwoClusters(t *testing.T) twoClusters {
	t.Helper()
	if cap(clusterSlots) < 2 {
		t.Skip("MultiKueue needs two clusters")
	}
	local := startCluster(t, withoutPodGC)
	worker := startNextCluster(t, withoutPodGC)
	var out []*manager
	for _, c := range []*cluster.Cluster{local, worker} {
		if err := c.StartKueue(t.Context()); err != nil {
			t.Fatal(err)
		}
		m := &manager{installation.New(t, c)}
		m.applyManifest(t, "", `{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: a100}}`)
		out = append(out, m)
	}
	kubeconfig, err := os.ReadFile(worker.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	out[0].applyManifest(t, "", fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: kueue-system}
---
apiVersion: v1
kind: Secret
metadata: {name: worker, namespace: kueue-system}
stringData: {kubeconfig: %q}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: worker}
spec: {clusterSource: {kubeConfig: {locationType: Secret, location: worker}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: workers}
spec: {clusters: [worker]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: workers}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: workers}
`, kubeconfig))
	return twoClusters{local: out[0], worker: out[1]}
}

// startGang creates a gang of 2 ranks in the local cluster, and returns its copy in the other cluster, which runs.
func (c twoClusters) startGang(t *testing.T, ns string, annotations ...string) *testGang {
	t.Helper()
	c.local.recordJobHistory(t, ns)
	c.worker.recordJobHistory(t, ns)
	c.worker.applyManifest(t, "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}")
	waitForServiceAccount(t, c.worker.Client, ns)
	c.worker.createQueue(t, ns, 2)
	c.local.createQueueWith(t, ns, newQuota("a100", 2), "admissionChecksStrategy: {admissionChecks: [{name: workers}]}")
	wait.For(t, "the queue to dispatch Jobs", func(ctx context.Context) error {
		_, err := c.local.Cluster.Kubectl(ctx, "wait", "--for=condition=Active", "--timeout=5s", "clusterqueue/"+ns)
		return err
	})
	c.worker.runFakeKubelet(t, ns, nil)
	c.local.createGang(t, ns, assignQueue("train", newTrainingWorkload(2, annotations...))...)
	wait.For(t, "the copy", func(ctx context.Context) error {
		_, err := c.worker.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
		return err
	})
	r := &testGang{manager: c.worker, t: t, ns: ns, jobs: []string{"train"}}
	r.waitForPhase(lifecycle.Running, 0)
	c.waitForLocalCondition(t, ns, "GangRunning")
	return r
}

// waitForLocalCondition waits until the Job of the local cluster has a condition.
func (c twoClusters) waitForLocalCondition(t *testing.T, ns string, condition batchv1.JobConditionType) string {
	t.Helper()
	var message string
	wait.For(t, "the Job to have the condition "+string(condition), func(ctx context.Context) error {
		j, err := c.local.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, have := range j.Status.Conditions {
			if have.Type == condition && have.Status == corev1.ConditionTrue {
				message = have.Message
				return nil
			}
		}
		return fmt.Errorf("status: %+v", j.Status)
	})
	return message
}

// succeed completes the copy and waits for the Job and its quota.
func (c twoClusters) succeed(t *testing.T, r *testGang) {
	t.Helper()
	for _, p := range r.listActivePods() {
		r.succeedPod(p)
	}
	c.waitForLocalCondition(t, r.ns, "GangSucceeded")
	c.waitForLocalCondition(t, r.ns, batchv1.JobComplete)
	c.local.waitForGPUsInUse(t, r.ns, 0)
}

// testMultiKueueSucceeds checks what exists in which cluster.
func testMultiKueueSucceeds(t *testing.T, c twoClusters, ns string) {
	r := c.startGang(t, ns)
	local := (&testGang{manager: c.local, t: t, ns: ns}).getJob("train")
	copied := r.getJob("train")
	if !(gang.Workload{Job: local}).IsCopiedByKueue() || (gang.Workload{Job: copied}).IsManagedExternally() {
		t.Error("Kueue does not manage the Job, or manages its copy")
	}
	if diff := cmp.Diff(local.Spec.Template.Spec.Containers, copied.Spec.Template.Spec.Containers); diff != "" {
		t.Errorf("the containers of the copy differ (-Job +copy):\n%s", diff)
	}
	if phase, status := local.Labels[gang.LabelPhase], local.Annotations[gang.AnnotationStatus]; phase+status != "" {
		t.Errorf("the Job has the phase %q and the status %q", phase, status)
	}
	c.worker.waitForService(t, ns, "train")
	services, err := c.local.Client.CoreV1().Services(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(services.Items) > 0 {
		t.Errorf("the cluster without pods has %d Services, %v", len(services.Items), err)
	}
	c.succeed(t, r)
	wait.For(t, "Kueue to delete the copy", func(ctx context.Context) error {
		if _, err := c.worker.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(err, errors.New("it exists"))
		}
		return nil
	})
}

// testMultiKueueFails checks that the first failure is visible in the local cluster.
func testMultiKueueFails(t *testing.T, c twoClusters, ns string) {
	r := c.startGang(t, ns, gang.AnnotationMaxRestarts, "0")
	r.failContainer(r.getActivePod("worker-1"), 3)
	if message := c.waitForLocalCondition(t, ns, "GangFailed"); !strings.Contains(message, "exited with code 3") {
		t.Errorf("the condition has the message %q", message)
	}
	c.waitForLocalCondition(t, ns, batchv1.JobFailed)
	c.local.waitForGPUsInUse(t, ns, 0)
}

// testMultiKueueRestarts checks that a gang completes in the local cluster after a restart, which changes the start
// time of the copy.
func testMultiKueueRestarts(t *testing.T, c twoClusters, ns string) {
	r := c.startGang(t, ns)
	terminate := r.beginRestart("worker-1", "worker-0")
	c.waitForLocalCondition(t, ns, batchv1.JobSuspended)
	terminate()
	r.waitForPhase(lifecycle.Running, 1)
	c.waitForLocalCondition(t, ns, "GangRunning")
	c.succeed(t, r)
}
