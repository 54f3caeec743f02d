package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// realEnv switches the tests with real nodes on: they change the machine's network while they run.
const realEnv = "ROLLCALL_TEST_REAL"

func needReal(t *testing.T) {
	t.Helper()
	if os.Getenv(realEnv) == "" {
		t.Skipf("real nodes change this machine's network while they run: set %s=1 to allow that", realEnv)
	}
	if err := CanRunReal(); err != nil {
		t.Skip(err)
	}
}

func probeImage() (Binary, error) {
	dir, err := sourceDir()
	return Binary{Ref: imageRepository + "probe:test", Dir: dir, Package: "./probe"}, err
}

// runLasting returns when a pod runs that does not end.
func runLasting(c *Cluster) error {
	probe, err := probeImage()
	if err != nil {
		return err
	}
	image, err := c.LoadImage(context.Background(), probe)
	if err != nil {
		return err
	}
	if _, err := c.Kubectl(context.Background(), "run", "lasting", "--image="+image, "--", "sleep"); err != nil {
		return err
	}
	_, err = c.Kubectl(context.Background(), "wait", "--for=condition=Ready", "--timeout=2m", "pod/lasting")
	return err
}

// create makes a headless Service and a Job of that name, whose pods probe the targets.
func create(t *testing.T, client kubernetes.Interface, name, image string, size int32, targets ...string) {
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
	job := gang(name, size, nil)
	job.Spec.Template.Spec.Subdomain = name
	job.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64)
	job.Spec.Template.Spec.Containers[0].Image = image
	job.Spec.Template.Spec.Containers[0].Args = targets
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestReal(t *testing.T) {
	needReal(t)
	c := Start(t, Options{Nodes: Real})
	probe, err := probeImage()
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
	// Each rank finds each other by its name, reaches the API server by its Service and by its name; no more is needed
	// for a rendezvous, or for a manager that runs as a pod.
	create(t, client, "gang", image, 2, "gang-0.gang.default.svc.cluster.local", "gang-1.gang", "kubernetes.default", "kubernetes.default.svc:443")
	awaitJob(t, client, "gang", "completed", hasCondition(batchv1.JobComplete))
	logs, err := c.Kubectl(t.Context(), "logs", "--selector=job-name=gang", "--tail=-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gang-1.gang 198.18.", "kubernetes.default " + apiServiceIP, "kubernetes.default.svc:443 connected"} {
		if strings.Count(logs, want) != 2 {
			t.Errorf("two pods should have printed %q; their logs are:\n%s", want, logs)
		}
	}

	create(t, client, "lasting", image, 1, "sleep")
	awaitJob(t, client, "lasting", "a ready pod", func(job *batchv1.Job) bool { return job.Status.Ready != nil && *job.Status.Ready == 1 })
	out, err := c.Kubectl(t.Context(), "exec", "job/lasting", "--", "/probe", "kubernetes.default")
	if err != nil || !strings.Contains(out, apiServiceIP) {
		t.Errorf("a command in a pod gives %q, %v", out, err)
	}

	// A second one on the machine is refused, and the first goes on.
	second, err := Up(t.Context(), Options{Nodes: Real, Progress: t.Output()})
	if err == nil {
		t.Errorf("a second cluster with real nodes started")
		_ = second.Down(context.Background())
	} else if !strings.Contains(err.Error(), c.Dir()) {
		t.Errorf("the refusal of a second cluster does not name the first: %v", err)
	}
	if _, err := c.Kubectl(t.Context(), "logs", "job/gang"); err != nil {
		t.Errorf("after the refusal the first cluster does not work: %v", err)
	}
}

// machineTraces returns what a cluster in dir still has outside of its folder.
func machineTraces(t *testing.T, dir string) []string {
	t.Helper()
	var traces []string
	if _, err := os.Stat("/sys/class/net/" + bridge); err == nil {
		traces = append(traces, "the bridge "+bridge)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	store, err := cacheDir("containerd")
	if err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{dir, store} {
		if bytes.Contains(mounts, []byte(" "+below+"/")) {
			traces = append(traces, "mounts below "+below)
		}
	}
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		rules, err := run(save)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(rules, chainPrefix) {
			traces = append(traces, save+" shows rules of Kubernetes")
		}
	}
	for _, shim := range shims(containerdSocket(dir)) {
		traces = append(traces, fmt.Sprintf("the shim with process number %d", shim.PID))
	}
	traces = append(traces, controlGroups(podsGroup)...)
	return traces
}

func TestRealCrash(t *testing.T) {
	needReal(t)
	dir, s := crash(t, Real)
	for end := time.Now().Add(killed); len(s.living()) > 0 && time.Now().Before(end); time.Sleep(poll) {
	}
	// The bridge, two kinds of mounts, two families of rules, a shim, and at least one control group.
	if traces := machineTraces(t, dir); len(traces) < 7 {
		t.Fatalf("the crashed cluster left just %v, so this test would prove little", traces)
	}
	if err := Clean(t.Output()); err != nil {
		t.Fatal(err)
	}
	if traces := machineTraces(t, dir); len(traces) > 0 {
		t.Errorf("after cleaning there still are: %s", strings.Join(traces, ", "))
	}
	if _, err := os.Stat(dir); !missing(err) {
		t.Errorf("after cleaning the folder is still there: %v", err)
	}
}
