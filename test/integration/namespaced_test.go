package integration

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestNamespacedInstallation limits Rollcall to two namespaces, with Roles instead of a ClusterRole.
func TestNamespacedInstallation(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	client := kubernetes.NewForConfigOrDie(c.Config())
	for _, ns := range []string{"team-a", "team-b", "team-c"} {
		_, err := client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		waitForServiceAccount(t, client, ns)
	}
	m := &manager{installation.NewWithChart(t, c, []string{"--set", "namespaces={team-a,team-b}"})}
	t.Run("gangs run in each namespace of the list", func(t *testing.T) {
		for _, ns := range []string{"team-a", "team-b"} {
			m.createJob(t, ns, newJob("train", 2))
			m.setPodPhases(t, m.waitForPods(t, ns, "train", 2), corev1.PodRunning)
			m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
		}
	})
	t.Run("other namespaces are excluded", func(t *testing.T) {
		other := m.createJob(t, "team-c", newJob("train", 2))
		if other.Annotations[gang.AnnotationInjected] != "" {
			t.Error("the webhook injected the Job")
		}
	})
	t.Run("the controller has no permission elsewhere", func(t *testing.T) {
		for _, a := range []authorizationv1.ResourceAttributes{
			{Verb: "list", Group: "batch", Resource: "jobs"},
			{Verb: "patch", Group: "apps", Resource: "statefulsets"},
			{Verb: "create", Resource: "secrets"},
			{Verb: "create", Resource: "services"},
			{Verb: "deletecollection", Resource: "pods"},
		} {
			for namespace, want := range map[string]bool{"team-a": true, "team-b": true, "team-c": false, "": false} {
				a.Namespace = namespace
				if got := m.isAllowed(t, a); got != want {
					t.Errorf("permission to %s %s in the namespace %q: %t, want %t", a.Verb, a.Resource, namespace, got, want)
				}
			}
		}
	})
}

// TestDisabledPermissions runs gangs without the permissions that the values of the chart disable.
func TestDisabledPermissions(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.NewWithChart(t, c, []string{
		"--set", "permissions.createKeyPairs=false,permissions.deletePods=false,permissions.untrackPods=false",
	})}
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"KeyPair":  testKeyPairForbidden,
		"CleanPod": testPodDeletionForbidden,
	})
}

// testKeyPairForbidden checks that a gang with a launcher reports that Rollcall may not create its
// Secret, and runs when its pods do, for example with a Secret of the user.
func testKeyPairForbidden(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newLauncher(2))
	m.createStatefulSet(t, ns, newWorkers(2))
	m.waitForMemberStatus(t, ns, lifecycle.Pending, gang.ReasonRequestRejected)
	m.setPodPhases(t, m.waitForPods(t, ns, "train", 3), corev1.PodRunning)
	m.waitForMemberStatus(t, ns, lifecycle.Running, gang.ReasonGangRunning)
	_, err := m.Client.CoreV1().Secrets(ns).Get(t.Context(), "train-rollcall-ssh", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("reading the Secret: %v, want that it does not exist", err)
	}
}

// testPodDeletionForbidden checks that a gang with clean-pod-policy all succeeds without the permission
// to delete its pods, and that an Event reports the pods that remain.
func testPodDeletionForbidden(t *testing.T, m *manager, ns string) {
	job := newJob("train", 2)
	job.Annotations = map[string]string{gang.AnnotationCleanPodPolicy: "all"}
	m.createJob(t, ns, job)
	pods := m.waitForPods(t, ns, "train", 2)
	m.setPodPhases(t, pods, corev1.PodRunning)
	m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
	m.setPodPhases(t, pods, corev1.PodSucceeded)
	m.waitForJobPhase(t, ns, lifecycle.Succeeded, "GangSucceeded")
	m.waitForEvent(t, ns, gang.ReasonRequestRejected)
	m.waitForPods(t, ns, "train", 2)
}

// isAllowed reports whether the controller has a permission.
func (m *manager) isAllowed(t *testing.T, a authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review, err := m.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(),
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: installation.ControllerUser, ResourceAttributes: &a,
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
