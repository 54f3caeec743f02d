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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// crashEnv makes the test program start a cluster and wait to be killed.
const crashEnv = "ROLLCALL_TEST_CRASH"

func TestMain(m *testing.M) {
	if nodes := os.Getenv(crashEnv); nodes != "" {
		startAndWait(Nodes(nodes))
		return
	}
	os.Exit(m.Run())
}

// startAndWait starts a cluster, prints its folder, and waits for its end.
func startAndWait(nodes Nodes) {
	c, err := Up(context.Background(), Options{Nodes: nodes})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if nodes == Real {
		// What a pod has on the machine must be found and removed too.
		if err := runLasting(c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println(c.Dir())
	select {}
}

func gang(name string, size int32, annotations map[string]string) *batchv1.Job {
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

// awaitJob waits until the Job is as wanted, and ends the test if that takes longer than three minutes.
func awaitJob(t *testing.T, client kubernetes.Interface, name, wanted string, as func(*batchv1.Job) bool) {
	t.Helper()
	var last batchv1.JobStatus
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		job, err := client.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = job.Status
		return as(job), nil
	})
	if err != nil {
		t.Fatalf("waiting for the Job %s to have %s: %v; its status is %+v", name, wanted, err, last)
	}
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

func TestNone(t *testing.T) {
	c := Start(t, Options{})
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), gang("gang", 3, nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitJob(t, client, "gang", "3 pods", func(job *batchv1.Job) bool { return job.Status.Active == 3 })

	out, err := c.Kubectl(t.Context(), "get", "pods", "--output=jsonpath={.items[*].status.phase}")
	if err != nil {
		t.Fatal(err)
	}
	if out != "Pending Pending Pending" {
		t.Errorf("without nodes pods are %q, want them Pending", out)
	}
	if _, err := c.Kubectl(t.Context(), "get", "nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("kubectl's complaint is lost: %v", err)
	}

	// A taken port, and a taken name, are refused by a message that names them; the first cluster is not harmed.
	_, port, err := net.SplitHostPort(strings.TrimPrefix(c.state.Server, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []struct {
		reason  string
		options Options
		want    string
	}{
		{"the port of the API server is taken", Options{Port: mustAtoi(t, port)}, "port " + port},
		{"the name is taken", Options{Name: c.Name()}, c.Name()},
	} {
		refused.options.Progress = io.Discard
		if second, err := Up(t.Context(), refused.options); err == nil {
			t.Errorf("%s: a second cluster started all the same", refused.reason)
			_ = second.Down(context.Background())
		} else if !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s: the error does not say %q: %v", refused.reason, refused.want, err)
		}
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("after the refusals the first cluster does not answer: %v", err)
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

func TestKwok(t *testing.T) {
	c := Start(t, Options{Nodes: Kwok, KwokNodes: 10})
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []*batchv1.Job{
		gang("lasting", 100, nil),
		gang("succeeding", 2, map[string]string{RunForAnnotation: "1s"}),
		gang("failing", 1, map[string]string{RunForAnnotation: "1s", ExitCodeAnnotation: "3"}),
	} {
		if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitJob(t, client, "lasting", "100 ready pods", func(job *batchv1.Job) bool { return job.Status.Ready != nil && *job.Status.Ready == 100 })
	awaitJob(t, client, "succeeding", "completed", hasCondition(batchv1.JobComplete))
	awaitJob(t, client, "failing", "failed", hasCondition(batchv1.JobFailed))
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=failing"})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Errorf("the failed pod does not say that it exited with 3: %+v", pods.Items)
	}
}

// crash starts a cluster in another process, kills that, and returns the cluster's folder and processes.
func crash(t *testing.T, nodes Nodes) (dir string, s *state) {
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
		t.Fatalf("the other process started no cluster: %v", errors.Join(err, cmd.Wait()))
	}
	dir = strings.TrimSpace(line)
	if s, err = loadState(dir); err != nil {
		t.Fatal(err)
	}
	if len(s.living()) != len(s.Processes) || len(s.Processes) < 4 {
		t.Fatalf("only %v of the processes %v live", s.living(), s.Processes)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the killed process ended well")
	}
	return dir, s
}

func TestCrash(t *testing.T) {
	dir, s := crash(t, None)
	// The kernel kills the components with their owner; nobody has to clean for that.
	for end := time.Now().Add(killed); len(s.living()) > 0 && time.Now().Before(end); time.Sleep(poll) {
	}
	if living := s.living(); len(living) > 0 {
		t.Errorf("these outlive the process that started them: %v", living)
	}
	if err := Clean(t.Output()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !missing(err) {
		t.Errorf("after cleaning the folder is still there: %v", err)
	}
}
