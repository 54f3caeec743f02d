package controller

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors/ssh"
	"rollcall.training/internal/lifecycle"
)

func TestCheckWorkersReached(t *testing.T) {
	newLauncherPod := func(state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-launcher-0", Labels: map[string]string{
				gang.LabelGang: "train", gang.LabelRole: "launcher", batchv1.ControllerUidLabel: "train-launcher"}},
			Status: corev1.PodStatus{
				Phase:                 corev1.PodSucceeded,
				InitContainerStatuses: []corev1.ContainerStatus{{Name: ssh.MonitorContainerName, State: state}},
			},
		}
	}
	ended := func(message string) *corev1.Pod {
		return newLauncherPod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}})
	}
	failed := ended("reached=0")
	failed.Status.Phase = corev1.PodFailed
	other := ended("reached=0")
	other.Labels[batchv1.ControllerUidLabel] = "of an earlier gang"
	plain := ended("")
	plain.Status.InitContainerStatuses = nil
	for name, c := range map[string]struct {
		pod        *corev1.Pod
		want       gang.Reason
		wantPasses int
	}{
		"no worker was reached": {pod: ended("reached=0\n"), want: gang.ReasonWorkersNotReached, wantPasses: 1},
		"one of three workers was reached": {
			pod:        ended("reached=1\n"),
			want:       gang.ReasonWorkersNotReached,
			wantPasses: 1,
		},
		"two of three workers were reached": {
			pod:        ended("reached=2\n"),
			want:       gang.ReasonGangSucceeded,
			wantPasses: 1,
		},
		"all workers were reached": {pod: ended("reached=3\n"), want: gang.ReasonGangSucceeded, wantPasses: 1},
		"monitor left no report":   {pod: ended("Error"), want: gang.ReasonGangSucceeded, wantPasses: 1},
		"monitor does not terminate": {
			pod:        newLauncherPod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
			want:       gang.ReasonGangSucceeded,
			wantPasses: 4,
		},
		"pod has no monitor":                 {pod: plain, want: gang.ReasonGangSucceeded, wantPasses: 1},
		"pod of a failed attempt is ignored": {pod: failed, want: gang.ReasonGangSucceeded, wantPasses: 1},
		"pod of another Job is ignored":      {pod: other, want: gang.ReasonGangSucceeded, wantPasses: 1},
		"pod was deleted":                    {want: gang.ReasonGangSucceeded, wantPasses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			done := newLauncherJob(t)
			done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			objects := []client.Object{done, newWorkerStatefulSet(t)}
			if c.pod != nil {
				objects = append(objects, c.pod)
			}
			w := newTestCluster(t, objects...)
			passes := 1
			for ; w.reconcileOnce(t, trainRequest) > 0; passes++ {
				w.clock.SetTime(w.clock.Now().Add(hostReportReadInterval))
			}
			if passes != c.wantPasses {
				t.Errorf("%d passes, want %d", passes, c.wantPasses)
			}
			for _, o := range []client.Object{&batchv1.Job{}, &appsv1.StatefulSet{}} {
				name := "train-launcher"
				if _, ok := o.(*appsv1.StatefulSet); ok {
					name = "train-worker"
				}
				if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, o); err != nil {
					t.Fatal(err)
				}
				member, _ := gang.WorkloadOf(o)
				if s := lifecycle.ReadStatus(member); s.Phase != lifecycle.Succeeded || s.Reason != c.want {
					t.Errorf("%s has the status %+v, want %s", name, s, c.want)
				}
				version := o.GetResourceVersion()
				w.reconcileOnce(t, trainRequest)
				if err := w.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.GetResourceVersion() != version {
					t.Errorf("another pass wrote to %s, %v", name, err)
				}
			}
		})
	}
}
