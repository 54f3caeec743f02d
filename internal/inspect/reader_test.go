package inspect

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// newRestartedJob returns a Job of two ranks after its first restart.
func newRestartedJob(t *testing.T) *batchv1.Job {
	t.Helper()
	return setStatus(t, newAdmittedJob(t, "again", "pytorch", 2), lifecycle.Status{State: lifecycle.State{
		Phase:              lifecycle.Running,
		Restarts:           1,
		LastTransitionTime: testTime,
		FirstFailure:       &failure.Failure{Rank: 1, Pod: "again-1", Reason: "OOMKilled", Time: testTime},
	}})
}

// newDisruptedJob returns a Job of one rank after one restart and 5 of at most 10 disruptions.
func newDisruptedJob(t *testing.T) *batchv1.Job {
	t.Helper()
	job := newAdmittedJob(t, "spot", "pytorch", 1, func(job *batchv1.Job) {
		job.Annotations = map[string]string{gang.AnnotationMaxDisruptions: "10"}
	})
	return setStatus(t, job, lifecycle.Status{State: lifecycle.State{
		Phase: lifecycle.Pending, Restarts: 1, Disruptions: 5, LastTransitionTime: testTime,
	}})
}

// newRunOfCronJob returns a Job of one rank in the gang nightly.
func newRunOfCronJob(t *testing.T, name string, age time.Duration) *batchv1.Job {
	t.Helper()
	return newAdmittedJob(t, name, "pytorch", 1, func(job *batchv1.Job) {
		job.Labels[gang.LabelGang] = "nightly"
		job.CreationTimestamp = timeAfter(-age)
	})
}

// newJobWithoutInjection returns a labeled Job that was not admitted by the webhook.
func newJobWithoutInjection(name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "team", Labels: map[string]string{gang.LabelFramework: "pytorch"},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}},
		}},
	}
}

// replacedPod returns a pod that is older than all others and has another name.
func replacedPod(pod *corev1.Pod) *corev1.Pod {
	pod.Name, pod.CreationTimestamp = pod.Name+"-old", timeAfter(-time.Hour)
	return pod
}

func TestGetGang(t *testing.T) {
	train := newAdmittedJob(t, "train", "pytorch", 3)
	launcher := newAdmittedJob(t, "sim", "mpi", 1, withRole("launcher", "launcher=1,worker=2"))
	worker := newAdmittedJob(t, "sim", "mpi", 2, withRole("worker", "launcher=1,worker=2"))
	restarted := newRestartedJob(t)
	firstRun := newRunOfCronJob(t, "run-1", time.Hour)
	secondRun := newRunOfCronJob(t, "run-2", 0)

	for name, c := range map[string]struct {
		objects  []runtime.Object
		gangName string
		want     gangSummary
	}{
		"the index of a pod is its rank": {
			objects:  []runtime.Object{train, newPod(train, 0, readyStatus), newPod(train, 2, failedStatus)},
			gangName: "train",
			want: gangSummary{
				Name: "train", Phase: lifecycle.Pending, Restarts: "0/3", ReadyCount: "1/3",
				Members: []string{"Job train 0-2"}, Cells: "#.x",
				FirstFailure: "rank 2 (pod train-2): Error, container trainer exited with code 3",
			},
		},
		"ranks of the second member follow those of the first": {
			objects: []runtime.Object{
				worker, launcher, newPod(launcher, 0, readyStatus),
				newPod(worker, 0, failedStatus), newPod(worker, 1, readyStatus),
			},
			gangName: "sim",
			want: gangSummary{
				Name: "sim", Phase: lifecycle.Pending, Restarts: "0/3", ReadyCount: "2/3",
				Members: []string{"Job sim-launcher 0", "Job sim-worker 1-2"}, Cells: "#x#",
				FirstFailure: "rank 1 (pod sim-worker-0): Error, container trainer exited with code 3",
			},
		},
		"a member that another member declares is missing": {
			objects:  []runtime.Object{launcher},
			gangName: "sim-launcher",
			want: gangSummary{
				Name: "sim", Phase: lifecycle.Pending, Restarts: "0/3", ReadyCount: "0/3",
				Members: []string{"Job sim-launcher 0", " sim-worker 1-2"}, Cells: "...",
			},
		},
		"a member that completed and was deleted is not missing": {
			objects:  []runtime.Object{withCompletedMember(t, launcher, "sim-worker")},
			gangName: "sim",
			want: gangSummary{
				Name: "sim", Phase: lifecycle.Pending, Restarts: "0/3", ReadyCount: "0/3, 2 succeeded",
				Members: []string{"Job sim-launcher 0", "Job sim-worker 1-2"}, Cells: ".++",
			},
		},
		"the recorded first failure takes precedence over replaced pods": {
			objects: []runtime.Object{
				restarted, newPod(restarted, 0, readyStatus), newPod(restarted, 1, readyStatus),
				replacedPod(newPod(restarted, 1, failedStatus)),
			},
			gangName: "again",
			want: gangSummary{
				Name: "again", Phase: lifecycle.Running, Restarts: "1/3", ReadyCount: "2/2",
				Members: []string{"Job again 0-1"}, Cells: "##",
				FirstFailure: "rank 1 (pod again-1): OOMKilled",
			},
		},
		"disruptions are counted apart from restarts": {
			objects:  []runtime.Object{newDisruptedJob(t)},
			gangName: "spot",
			want: gangSummary{
				Name: "spot", Phase: lifecycle.Pending, Restarts: "1/3", Disruptions: "5/10", ReadyCount: "0/1",
				Members: []string{"Job spot 0"}, Cells: ".",
			},
		},
		"the gang name selects the latest run of a CronJob without pods of other runs": {
			objects:  []runtime.Object{firstRun, secondRun, newPod(firstRun, 0, readyStatus)},
			gangName: "nightly",
			want: gangSummary{
				Name: "nightly", Phase: lifecycle.Pending, Restarts: "0/3", ReadyCount: "0/1",
				Members: []string{"Job run-2 0"}, Cells: ".", Warnings: 1,
			},
		},
		"the name of a Job selects an earlier run of a CronJob": {
			objects:  []runtime.Object{firstRun, secondRun, newPod(firstRun, 0, readyStatus)},
			gangName: "run-1",
			want: gangSummary{
				Name: "nightly", Phase: lifecycle.Pending, Restarts: "0/3", ReadyCount: "1/1",
				Members: []string{"Job run-1 0"}, Cells: "#",
			},
		},
		"a Job without injection has no phase": {
			objects:  []runtime.Object{newJobWithoutInjection("missed")},
			gangName: "missed",
			want: gangSummary{
				Name: "missed", Restarts: "0/3", ReadyCount: "0/1", Members: []string{"Job missed 0"}, Cells: ".",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := newReader(fake.NewClientset(c.objects...)).GetGang(t.Context(), c.gangName)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, summarizeGang(g)); diff != "" {
				t.Errorf("gang (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGetScaledDownStatefulSet(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "jax"},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](4),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer"}}}},
		},
	}
	if _, err := newEngine().Admit(gang.Workload{StatefulSet: set}); err != nil {
		t.Fatal(err)
	}
	set.Spec.Replicas = ptr.To[int32](0) // the state between two attempts
	g, err := newReader(fake.NewClientset(set)).GetGang(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	if g.Size != 4 || !g.Members[0].Suspended {
		t.Errorf("member %+v of a gang of size %d, want a suspended member of a gang of size 4", g.Members[0], g.Size)
	}
}

func TestListGangs(t *testing.T) {
	elsewhere := newAdmittedJob(t, "other", "jax", 2)
	elsewhere.Namespace = "other"
	optedOut := newAdmittedJob(t, "out", "jax", 2)
	optedOut.Labels[gang.LabelInject] = "false"
	launcher := newAdmittedJob(t, "sim", "mpi", 1, withRole("launcher", "launcher=1,worker=2"))
	worker := newAdmittedJob(t, "sim", "mpi", 2, withRole("worker", "launcher=1,worker=2"))
	worker.Status.Ready = ptr.To[int32](2)
	client := fake.NewClientset(newAdmittedJob(t, "train", "pytorch", 3), elsewhere, optedOut, worker, launcher)
	for name, c := range map[string]struct {
		namespace string
		want      []string
	}{
		"the members of a gang are one entry": {
			namespace: "team",
			want:      []string{"team/sim 2/3", "team/train 0/3"},
		},
		"an empty namespace means all namespaces": {
			want: []string{"other/other 0/2", "team/sim 2/3", "team/train 0/3"},
		},
		"a namespace without gangs has no entries": {
			namespace: "empty",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(client)
			r.Namespace = c.namespace
			gangs, err := r.ListGangs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range gangs {
				got = append(got, g.Namespace+"/"+g.Name+" "+formatReadyCount(g.Ready, g.Succeeded, g.Size))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("gangs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGangsOfSameName checks that a workload without roles is a gang of its own, even if a gang with
// several members has the same name.
func TestGangsOfSameName(t *testing.T) {
	r := newReader(fake.NewClientset(
		newAdmittedJob(t, "train", "pytorch", 2),
		newAdmittedJob(t, "train", "pytorch", 1, withRole("master", "master=1,worker=2")),
		newAdmittedJob(t, "train", "pytorch", 2, withRole("worker", "master=1,worker=2")),
	))
	gangs, err := r.ListGangs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gangsByMembers := map[int]int{}
	for _, g := range gangs {
		gangsByMembers[len(g.Members)]++
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, gangsByMembers); diff != "" {
		t.Errorf("number of gangs by number of members (-want +got):\n%s", diff)
	}
}

func TestGangNotFound(t *testing.T) {
	r := newReader(fake.NewClientset(newAdmittedJob(t, "train", "pytorch", 3)))
	_, err := r.GetGang(t.Context(), "trian")
	const want = `gang "trian" not found in namespace team; existing gangs: train`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestAddDetails(t *testing.T) {
	train := newAdmittedJob(t, "train", "pytorch", 1)
	event := func(reason string, e corev1.Event) *corev1.Event {
		e.ObjectMeta = metav1.ObjectMeta{Name: reason, Namespace: "team"}
		e.InvolvedObject, e.Reason = corev1.ObjectReference{Kind: "Job", Name: "train", UID: train.UID}, reason
		return &e
	}
	client := fake.NewClientset(train,
		event(reasonPodCreated, corev1.Event{FirstTimestamp: timeAfter(time.Hour)}),
		event(reasonPodDeleted, corev1.Event{FirstTimestamp: timeAfter(time.Hour)}),
		event("series", corev1.Event{
			EventTime: metav1.NewMicroTime(testTime),
			Series: &corev1.EventSeries{
				Count: 5, LastObservedTime: metav1.NewMicroTime(testTime.Add(3 * time.Minute)),
			},
		}),
		event("new", corev1.Event{EventTime: metav1.NewMicroTime(testTime.Add(2 * time.Minute))}),
		event("legacy", corev1.Event{FirstTimestamp: timeAfter(0), LastTimestamp: timeAfter(time.Minute), Count: 2}))
	g := Gang{Members: []Member{{uid: string(train.UID)}}}
	newReader(client).AddDetails(t.Context(), &g)
	var got []string
	for _, e := range g.Events {
		got = append(got, fmt.Sprintf("%s %s x%d", e.Time.UTC().Format("15:04"), e.Reason, e.Count))
	}
	if diff := cmp.Diff([]string{"12:01 legacy x2", "12:02 new x0", "12:03 series x5"}, got); diff != "" {
		t.Errorf("Events of both API groups in order of time (-want +got):\n%s", diff)
	}
}

func TestForbidden(t *testing.T) {
	forbid := func(client *fake.Clientset, verb, resource string) {
		client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no rule"))
		})
	}
	client := fake.NewClientset(newAdmittedJob(t, "train", "pytorch", 1))
	forbid(client, "list", "events")
	g := Gang{Members: []Member{{uid: "a"}}}
	if newReader(client).AddDetails(t.Context(), &g); len(g.Warnings) != 1 {
		t.Errorf("without permission for Events: warnings %q, want one", g.Warnings)
	}
	forbid(client, "list", "pods")
	if _, err := newReader(client).GetGang(t.Context(), "train"); !apierrors.IsForbidden(err) {
		t.Errorf("without permission for pods: error %v, want Forbidden", err)
	}
}

// withCompletedMember returns a copy of a Job whose status records that another member completed.
func withCompletedMember(t *testing.T, job *batchv1.Job, member string) *batchv1.Job {
	t.Helper()
	return setStatus(t, job.DeepCopy(), lifecycle.Status{State: lifecycle.State{
		Phase: lifecycle.Pending,
		Bookkeeping: lifecycle.Bookkeeping{
			CompletedMembers: map[string]time.Time{member: job.CreationTimestamp.Time},
		},
	}})
}
