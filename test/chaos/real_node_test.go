package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// program runs until a file contains its exit code. It exits with code 0 on SIGTERM, as programs do that
// save a checkpoint.
const program = `trap 'exit 0' TERM
while [ ! -s /tmp/exit ]; do sleep 0.2 & wait $!; done
exit $(cat /tmp/exit)`

// realNode is the only real node of its cluster.
type realNode struct {
	*cluster.Cluster
	client kubernetes.Interface
	image  string
}

// TestChaosReal runs lives on a real node while pods of Rollcall are killed and the API server restarts.
func TestChaosReal(t *testing.T) {
	s := readSchedule(t, "REAL_LIVES")
	if os.Getenv("REAL_LIVES") == "" {
		t.Skip("set REAL_LIVES to run lives on the real node")
	}
	if err := cluster.CanRunReal(); err != nil {
		t.Skipf("real nodes are not possible: %v", err)
	}
	manager, err := installation.NewManagerImage()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Real, Images: []cluster.ImageSource{manager, cluster.Torch}})
	if err := installation.InstallChart(t.Context(), c, "--set", "webhook.timeoutSeconds=30"); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	image, err := cluster.Torch.Reference()
	if err != nil {
		t.Fatal(err)
	}
	recorder, wait := startRecorder(t.Context(), client)
	t.Cleanup(wait)
	n := realNode{Cluster: c, client: client, image: image}
	r := &runner{client: client, recorder: recorder, nodes: n}
	runLives(t, c, r, s, false, func(random *rand.Rand) string {
		what, err := n.disrupt(t.Context(), random)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return what
	}).print(t)
}

// disrupt restarts the API server, or kills a pod of Rollcall without a grace period.
func (n realNode) disrupt(ctx context.Context, random *rand.Rand) (string, error) {
	if random.IntN(4) == 0 {
		return "API server restarts", n.RestartAPIServer(ctx)
	}
	const what = "kills of a pod of Rollcall"
	pods, err := n.client.CoreV1().Pods(installation.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		return what, err
	}
	killed := pods.Items[random.IntN(len(pods.Items))]
	err = n.client.CoreV1().Pods(installation.Namespace).Delete(ctx, killed.Name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return what, err
}

func (n realNode) newPodSpec(life, string) corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](10),
		Containers: []corev1.Container{{
			Name: "trainer", Image: n.image, Command: []string{"sh", "-c", program},
		}},
	}
}

func (n realNode) prepare(context.Context, life, string) error { return nil }

func (n realNode) cleanUp(context.Context, string) error { return nil }

// exit makes the program of a pod exit. If that fails because the pod is gone, the error is that of the
// API server.
func (n realNode) exit(ctx context.Context, _ life, pod corev1.Pod, code int32) error {
	_, execErr := n.Kubectl(ctx, "--namespace", pod.Namespace, "exec", pod.Name, "--",
		"sh", "-c", fmt.Sprintf("echo %d > /tmp/exit", code))
	if execErr == nil {
		return nil
	}
	now, err := n.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if now.UID != pod.UID || now.DeletionTimestamp != nil || !isLive(*now) ||
		strings.Contains(execErr.Error(), "container not found") {
		return apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	}
	return execErr
}

func (n realNode) lose(context.Context, corev1.Pod) error {
	return fmt.Errorf("the real node is the only one of its cluster")
}
