package detach_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/detach"
	"rollcall.training/internal/lifecycle"
)

// TestDetachMembers checks that a Job whose status is reset does not wait for the pods of a StatefulSet
// of its gang that was detached before.
func TestDetachMembers(t *testing.T) {
	for name, c := range map[string]struct {
		setSuspended bool
		want         map[string]detach.Outcome
	}{
		"StatefulSet is resumed": {
			setSuspended: true,
			want:         map[string]detach.Outcome{"train-master": detach.Resumed, "train-worker": detach.Resumed},
		},
		"StatefulSet was not suspended yet": {
			want: map[string]detach.Outcome{"train-master": detach.Resumed, "train-worker": detach.Detached},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := newWorkerMember(t, c.setSuspended)
				client := fake.NewClientset(newMasterMember(t), set)
				client.PrependReactor("patch", "statefulsets", func(clienttesting.Action) (bool, runtime.Object, error) {
					time.AfterFunc(5*time.Second, func() { setReplicas(t, client, set) })
					return false, nil, client.Tracker().Add(newRunningPod(set))
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got := map[string]detach.Outcome{}
				d := detach.Detacher{Client: client, Engine: engine, Clock: clock.RealClock{}, Namespaces: []string{"team"}}
				err := d.Run(ctx, func(r detach.Result) {
					got[r.Name] = r.Outcome
					if r.Err != nil {
						t.Errorf("%s: %v", r.Name, r.Err)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestDetachStranger checks that a gang does not wait for the pods of a workload that only has its name, and that
// the name of the gang does not select the workload.
func TestDetachStranger(t *testing.T) {
	resumed := map[string]detach.Outcome{"train-master": detach.Resumed}
	for name, c := range map[string]struct {
		gangs []string
		want  map[string]detach.Outcome
	}{
		"gang is selected": {gangs: []string{"train"}, want: resumed},
		"stranger is selected": {
			gangs: []string{"other"}, want: map[string]detach.Outcome{"other": detach.Detached},
		},
		"all gangs are selected": {
			want: map[string]detach.Outcome{"train-master": detach.Resumed, "other": detach.Detached},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				master, stranger := newMasterMember(t), newWorkerMember(t, false)
				status := lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Restarting}}
				status.SuspendedByRollcall, status.MemberUIDs = true, []types.UID{"master"}
				text, err := status.Encode()
				if err != nil {
					t.Fatal(err)
				}
				master.Annotations[gang.AnnotationStatus] = text
				stranger.Name, stranger.Labels[gang.LabelGang] = "other", "train"
				delete(stranger.Annotations, gang.AnnotationStatus)
				client := fake.NewClientset(master, stranger, newRunningPod(stranger))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got := map[string]detach.Outcome{}
				d := detach.Detacher{Client: client, Engine: engine, Clock: clock.RealClock{}, Namespaces: []string{"team"}}
				d.Gangs = c.gangs
				if err := d.Run(ctx, func(r detach.Result) { got[r.Name] = r.Outcome }); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// newMemberMeta returns the metadata of a member of a gang with a master and two workers.
func newMemberMeta(role string) metav1.ObjectMeta {
	about := newMeta()
	about.Name, about.Labels[gang.LabelRole] = "train-"+role, role
	about.Annotations = map[string]string{gang.AnnotationRoles: "master=1,worker=2"}
	return about
}

// newMasterMember returns the Job of the master, which succeeded before the gang restarted.
func newMasterMember(t *testing.T) *batchv1.Job {
	job := admit(t, &batchv1.Job{ObjectMeta: newMemberMeta("master"), Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), Template: newTemplate(),
	}}, lifecycle.Restarting, true)
	job.UID, job.Spec.Suspend = "master", ptr.To(true)
	job.Status = batchv1.JobStatus{
		StartTime: ptr.To(metav1.Now()), Succeeded: 1, CompletedIndexes: "0",
		Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}},
	}
	return job
}

// newWorkerMember returns the StatefulSet of the workers.
func newWorkerMember(t *testing.T, suspended bool) *appsv1.StatefulSet {
	template := newTemplate()
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	set := admit(t, &appsv1.StatefulSet{ObjectMeta: newMemberMeta("worker"), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](2), Template: template,
	}}, lifecycle.Restarting, suspended)
	set.UID = "worker"
	if suspended {
		set.Spec.Replicas = ptr.To[int32](0)
	}
	return set
}

func newRunningPod(set *appsv1.StatefulSet) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: set.Name + "-0", Labels: map[string]string{gang.LabelGang: "train"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// setReplicas sets the status of a StatefulSet whose pods exist.
func setReplicas(t *testing.T, client *fake.Clientset, set *appsv1.StatefulSet) {
	t.Helper()
	now, err := client.AppsV1().StatefulSets("team").Get(t.Context(), set.Name, metav1.GetOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	now.Status.Replicas = 2
	if err := client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("statefulsets"), now, "team"); err != nil {
		t.Error(err)
	}
}
