package controller

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors/ssh"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/otherlauncher"
)

// TestOtherLauncherFramework checks that a framework with a launcher gets keys, a hostfile and the diagnosis of its
// launcher without a change outside of its folder.
func TestOtherLauncherFramework(t *testing.T) {
	engine := otherlauncher.NewEngine()
	admit := func(w gang.Workload) {
		if _, err := engine.Admit(w); err != nil {
			t.Fatal(err)
		}
	}
	launcher := &batchv1.Job{
		ObjectMeta: newObjectMeta("train-launcher", otherlauncher.Name, "launcher", "launcher=1,worker=3"),
		Spec:       singlePodJobSpec(),
	}
	workers := &appsv1.StatefulSet{
		ObjectMeta: newObjectMeta("train-worker", otherlauncher.Name, "worker", "launcher=1,worker=3"),
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: *podTemplate.DeepCopy()},
	}
	admit(gang.Workload{Job: launcher})
	admit(gang.Workload{StatefulSet: workers})
	mounts := launcher.Spec.Template.Spec.Containers[0].VolumeMounts
	if !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/mpi" }) {
		t.Errorf("the launcher has no hostfile: %+v", mounts)
	}

	w := newTestCluster(t, launcher, workers)
	w.Engine = engine
	w.reconcileFor(t, time.Minute)
	if !w.hasKeyPair(t) {
		t.Error("the Secret with the keys was not created")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-launcher-0", Labels: map[string]string{
			gang.LabelGang: "train", gang.LabelRole: "launcher", batchv1.ControllerUidLabel: "train-launcher"}},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, InitContainerStatuses: []corev1.ContainerStatus{{
			Name:  ssh.MonitorContainerName,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "reached=0"}},
		}}},
	}
	launcher.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	w = newTestCluster(t, launcher, workers, pod)
	w.Engine = engine
	w.reconcileOnce(t, trainRequest)
	var got batchv1.Job
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(launcher), &got); err != nil {
		t.Fatal(err)
	}
	status := lifecycle.ReadStatus(gang.Workload{Job: &got})
	if status.Phase != lifecycle.Succeeded || status.Reason != gang.ReasonWorkersNotReached {
		t.Errorf("the status is %+v", status)
	}
}
