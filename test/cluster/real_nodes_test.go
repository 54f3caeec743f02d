package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// realNodesEnv is the environment variable that enables tests with real nodes. They change the
// network of the machine while they run.
const realNodesEnv = "ROLLCALL_TEST_REAL"

func requireRealNodes(t *testing.T) {
	t.Helper()
	if os.Getenv(realNodesEnv) == "" {
		t.Skipf("real nodes change this machine's network while they run: set %s=1 to enable these tests", realNodesEnv)
	}
	if err := CanRunReal(); err != nil {
		t.Skip(err)
	}
}

func newProbeBinary() (Binary, error) {
	dir, err := findSourceDir()
	return Binary{Ref: imageRepository + "probe:test", Dir: dir, Package: "./probe"}, err
}

// runPodOnNode starts a pod with a Service of the same name that accepts connections on port 8080, and
// returns when it is ready.
func runPodOnNode(ctx context.Context, c *Cluster, name, node string) error {
	probe, err := newProbeBinary()
	if err != nil {
		return err
	}
	image, err := c.LoadImage(ctx, probe)
	if err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "run", name, "--image="+image, "--port=8080", "--expose",
		fmt.Sprintf(`--overrides={"spec":{"nodeName":%q}}`, node), "--", "sleep"); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=2m", "pod/"+name)
	return err
}

// createProbeJob creates a headless Service and a Job with that name. The pods of the Job probe the
// targets.
func createProbeJob(t *testing.T, client kubernetes.Interface, name, image string, size int32, targets ...string) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: map[string]string{batchv1.JobNameLabel: name},
		},
	}
	if _, err := client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	job := newJob(name, size, nil)
	job.Spec.Template.Spec.Subdomain = name
	job.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64)
	job.Spec.Template.Spec.Containers[0].Image = image
	job.Spec.Template.Spec.Containers[0].Args = targets
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestRealNodes(t *testing.T) {
	requireRealNodes(t)
	c := Start(t, Options{Nodes: Real})
	probe, err := newProbeBinary()
	if err != nil {
		t.Fatal(err)
	}
	image, err := c.LoadImage(t.Context(), probe)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	// Each rank resolves its peers, and reaches the API server through its Service and its name.
	// Rendezvous and a manager in a pod need no more.
	createProbeJob(
		t, client, "gang", image, 2,
		"gang-0.gang.default.svc.cluster.local", "gang-1.gang", "kubernetes.default", "kubernetes.default.svc:443",
	)
	waitForJob(t, client, "gang", "completed", hasCondition(batchv1.JobComplete))
	logs, err := c.Kubectl(t.Context(), "logs", "--selector=job-name=gang", "--tail=-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gang-1.gang 198.18.", "kubernetes.default " + apiServiceIP, "kubernetes.default.svc:443 connected",
	} {
		if strings.Count(logs, want) != 2 {
			t.Errorf("want %q in the logs of two pods, got:\n%s", want, logs)
		}
	}

	createProbeJob(t, client, "lasting", image, 1, "sleep")
	waitForJob(t, client, "lasting", "a ready pod", func(job *batchv1.Job) bool {
		return job.Status.Ready != nil && *job.Status.Ready == 1
	})
	out, err := c.Kubectl(t.Context(), "exec", "job/lasting", "--", "/probe", "kubernetes.default")
	if err != nil || !strings.Contains(out, apiServiceIP) {
		t.Errorf("exec in a pod returned %q, %v", out, err)
	}

	// A second cluster on the machine is an error, and the first cluster keeps working.
	second, err := Up(t.Context(), Options{Nodes: Real, Progress: t.Output()})
	if err == nil {
		t.Errorf("a second cluster with real nodes started")
		_ = second.Down(context.Background())
	} else if !strings.Contains(err.Error(), c.Dir()) {
		t.Errorf("the error of the second cluster does not name the first: %v", err)
	}
	if _, err := c.Kubectl(t.Context(), "logs", "job/gang"); err != nil {
		t.Errorf("the first cluster no longer works: %v", err)
	}
}

// findMachineLeftovers returns descriptions of the resources of a cluster in dir that exist outside
// of its directory.
func findMachineLeftovers(t *testing.T, dir string) []string {
	t.Helper()
	var traces []string
	if _, err := os.Stat("/sys/class/net/" + bridgeName); err == nil {
		traces = append(traces, "the bridge "+bridgeName)
	}
	links, err := filepath.Glob("/sys/class/net/" + linkPrefix + "*")
	if err != nil {
		t.Fatal(err)
	}
	traces = append(traces, links...)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	store, err := ensureCacheDir("containerd")
	if err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{dir + "/n2/", dir + "/network-2", dir + "/containerd/", store} {
		if bytes.Contains(mounts, []byte(" "+below)) {
			traces = append(traces, "mounts below "+below)
		}
	}
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		rules, err := runCommand(save)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range []string{kubernetesChainPrefix, "-i " + bridgeName, "-i " + linkPrefix} {
			if strings.Contains(rules, rule) {
				traces = append(traces, save+" shows rules with "+rule)
			}
		}
	}
	for number := 1; number <= 2; number++ {
		n := realNode{clusterDir: dir, number: number}
		for _, shim := range findShims(containerdSocket(n.dir())) {
			traces = append(traces, fmt.Sprintf("the shim of node %s with process number %d", n.name(), shim.PID))
		}
		if len(findCgroups(n.podsCgroup())) > 0 {
			traces = append(traces, "control groups "+n.podsCgroup())
		}
	}
	return traces
}

func TestCleanAfterRealNodesCrash(t *testing.T) {
	requireRealNodes(t)
	dir, s := startAndCrash(t, Real)
	for end := time.Now().Add(killTimeout); len(s.runningProcesses()) > 0 &&
		time.Now().Before(end); time.Sleep(pollInterval) {
	}
	// The bridge, the link, three kinds of mounts, four kinds of rules, two shims, and two control groups.
	if traces := findMachineLeftovers(t, dir); len(traces) < 13 {
		t.Fatalf("the crashed cluster left only %q, which is not enough for this test", traces)
	}
	if err := Clean(t.Output()); err != nil {
		t.Fatal(err)
	}
	if traces := findMachineLeftovers(t, dir); len(traces) > 0 {
		t.Errorf("these resources still exist after Clean: %s", strings.Join(traces, ", "))
	}
	if _, err := os.Stat(dir); !isNotExist(err) {
		t.Errorf("the directory still exists after Clean: %v", err)
	}
}
