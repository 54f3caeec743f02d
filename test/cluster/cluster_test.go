package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/wait"
)

// crashEnv is the environment variable that makes the test program start a cluster and wait to be
// killed.
const crashEnv = "ROLLCALL_TEST_CRASH"

func TestMain(m *testing.M) {
	if nodes := os.Getenv(crashEnv); nodes != "" {
		startAndWait(NodeKind(nodes))
		return
	}
	os.Exit(m.Run())
}

// startAndWait starts a cluster, prints its directory, and waits indefinitely.
func startAndWait(nodes NodeKind) {
	options := Options{Nodes: nodes}
	if nodes == Real {
		options.RealNodes = 2
	}
	c, err := Up(context.Background(), options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if nodes == Real {
		// The cleanup must also find and remove the resources of pods, and of a node without a link.
		err := errors.Join(
			runPodOnNode(context.Background(), c, "first", c.RealNodes()[0]),
			runPodOnNode(context.Background(), c, "second", c.RealNodes()[1]),
			c.CutNode(c.RealNodes()[1]),
		)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println(c.Dir())
	select {}
}

func newJob(name string, size int32, annotations map[string]string) *batchv1.Job {
	indexed, noRetries := batchv1.IndexedCompletion, int32(0)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: &size, Parallelism: &size, CompletionMode: &indexed, BackoffLimit: &noRetries,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "train", Image: imageRepository + "absent:1"}},
				},
			},
		},
	}
}

// waitForJob waits until the Job satisfies as. wanted describes that state.
func waitForJob(t *testing.T, client kubernetes.Interface, name, wanted string, as func(*batchv1.Job) bool) {
	t.Helper()
	wait.For(t, fmt.Sprintf("the Job %s to have %s", name, wanted), func(ctx context.Context) error {
		job, err := client.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && !as(job) {
			err = fmt.Errorf("its status is %+v", job.Status)
		}
		return err
	})
}

func hasCondition(wanted batchv1.JobConditionType) func(*batchv1.Job) bool {
	return func(job *batchv1.Job) bool {
		for _, condition := range job.Status.Conditions {
			if condition.Type == wanted && condition.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}
}

func TestControlPlaneOnly(t *testing.T) {
	c := Start(t, Options{})
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.BatchV1().Jobs("default").Create(
		t.Context(), newJob("gang", 3, nil), metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	waitForJob(t, client, "gang", "3 pods", func(job *batchv1.Job) bool { return job.Status.Active == 3 })

	out, err := c.Kubectl(t.Context(), "get", "pods", "--output=jsonpath={.items[*].status.phase}")
	if err != nil {
		t.Fatal(err)
	}
	if out != strings.TrimSpace(strings.Repeat("Pending ", 3)) {
		t.Errorf("the phases of pods without nodes are %q, want Pending", out)
	}
	if _, err := c.Kubectl(t.Context(), "get", "nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("the error of kubectl is lost: %v", err)
	}

	// A port or a name in use causes an error that contains it and does not harm the first cluster.
	_, port, err := net.SplitHostPort(strings.TrimPrefix(c.state.Server, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason  string
		options Options
		want    string
	}{
		{"the port of the API server is taken", Options{Port: mustAtoi(t, port)}, "port " + port},
		{"the name is taken", Options{Name: c.Name()}, c.Name()},
	} {
		tc.options.Progress = io.Discard
		if second, err := Up(t.Context(), tc.options); err == nil {
			t.Errorf("%s: a second cluster started", tc.reason)
			_ = second.Down(context.Background())
		} else if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: the error does not contain %q: %v", tc.reason, tc.want, err)
		}
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the first cluster no longer responds: %v", err)
	}
}

func mustAtoi(t *testing.T, text string) int {
	t.Helper()
	var number int
	if _, err := fmt.Sscan(text, &number); err != nil {
		t.Fatal(err)
	}
	return number
}

func TestKwokNodes(t *testing.T) {
	c := Start(t, Options{Nodes: Kwok, KwokNodes: 10})
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []*batchv1.Job{
		newJob("lasting", 100, nil),
		newJob("succeeding", 2, map[string]string{RunForAnnotation: "1s"}),
		newJob("failing", 1, map[string]string{RunForAnnotation: "1s", ExitCodeAnnotation: "3"}),
	} {
		if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitForJob(t, client, "lasting", "100 ready pods", func(job *batchv1.Job) bool {
		return job.Status.Ready != nil && *job.Status.Ready == 100
	})
	waitForJob(t, client, "succeeding", "completed", hasCondition(batchv1.JobComplete))
	waitForJob(t, client, "failing", "failed", hasCondition(batchv1.JobFailed))
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{
		LabelSelector: "batch.kubernetes.io/job-name=failing",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Errorf("the failed pod does not have the exit code 3: %+v", pods.Items)
	}
}

// startAndCrash starts a cluster in another process, kills that process, and returns the directory
// and the state of the cluster.
func startAndCrash(t *testing.T, nodes NodeKind) (dir string, s *clusterState) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), crashEnv+"="+string(nodes))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the other process did not start a cluster: %v", errors.Join(err, cmd.Wait()))
	}
	dir = strings.TrimSpace(line)
	if s, err = loadState(dir); err != nil {
		t.Fatal(err)
	}
	if len(s.runningProcesses()) != len(s.Processes) || len(s.Processes) < 4 {
		t.Fatalf("only %v of the processes %v are running", s.runningProcesses(), s.Processes)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the killed process exited with code 0")
	}
	return dir, s
}

func TestCleanAfterCrash(t *testing.T) {
	dir, s := startAndCrash(t, NoNodes)
	// The kernel kills the components with their owner, without a cleanup.
	for end := time.Now().Add(killTimeout); len(s.runningProcesses()) > 0 &&
		time.Now().Before(end); time.Sleep(pollInterval) {
	}
	if living := s.runningProcesses(); len(living) > 0 {
		t.Errorf("these processes outlive their owner: %v", living)
	}
	if err := Clean(t.Output()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !isNotExist(err) {
		t.Errorf("the directory still exists after Clean: %v", err)
	}
}
