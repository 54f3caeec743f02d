package roster

import (
	"context"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// admitted is a Job as the webhook admits it.
func admitted(t *testing.T, name, framework string, size int32, change ...func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: types.UID("uid-" + name), CreationTimestamp: at(0),
			Labels: map[string]string{gang.LabelFramework: framework}, Annotations: map[string]string{}},
		Spec: batchv1.JobSpec{Parallelism: &size, Completions: &size, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "sidecar"}, {Name: "trainer"}}}}},
	}
	for _, c := range change {
		c(job)
	}
	if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	return job
}

// says puts a status on a Job, as the reconciler does.
func says(t *testing.T, job *batchv1.Job, s gang.Status) *batchv1.Job {
	t.Helper()
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationStatus], job.Labels[gang.LabelPhase] = text, string(s.Phase)
	return job
}

// podOf is a pod of a Job, as the Job controller makes it.
func podOf(job *batchv1.Job, index int, status corev1.PodStatus) *corev1.Pod {
	labels := map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index)}
	for k, v := range job.Spec.Template.Labels {
		labels[k] = v
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", job.Name, index), Namespace: job.Namespace, UID: types.UID(fmt.Sprintf("%s-%d", job.Name, index)),
			Labels: labels, CreationTimestamp: at(0),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}}},
		Status: status,
	}
}

var (
	readyStatus  = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: isUp}
	failedStatus = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer", State: terminated(3, "Error")}}}
)

func several(role, roles string) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Labels[gang.LabelRole], job.Annotations[gang.AnnotationRoles] = role, roles
		job.Name += "-" + role
		job.UID = types.UID("uid-" + job.Name)
	}
}

// summary is what the cases below look at.
type summary struct {
	Name    string
	Phase   gang.Phase
	Attempt string
	Count   string
	Members []string
	Cells   string
	Cause   string
	Notes   int
}

func summarize(g Gang) summary {
	s := summary{Name: g.Name, Phase: g.Phase, Attempt: g.attempt(), Count: g.count(), Notes: len(g.Notes)}
	for _, m := range g.Members {
		s.Members = append(s.Members, fmt.Sprintf("%s %s %s", m.Kind, m.Name, m.ranks()))
	}
	for _, r := range g.Ranks {
		s.Cells += symbols[r.State].cell
	}
	if g.Cause != nil {
		s.Cause = g.Cause.String()
	}
	return s
}

func TestGang(t *testing.T) {
	train := admitted(t, "train", "pytorch", 3)
	launcher := admitted(t, "sim", "mpi", 1, several("launcher", "launcher=1,worker=2"))
	worker := admitted(t, "sim", "mpi", 2, several("worker", "launcher=1,worker=2"))
	restarted := says(t, admitted(t, "again", "pytorch", 2), gang.Status{Phase: gang.Running, Attempt: 1, Since: noon,
		Cause: &gang.Fall{Rank: 1, Pod: "again-1", Reason: "OOMKilled", At: noon}})
	old := func(pod *corev1.Pod) *corev1.Pod {
		pod.Name, pod.CreationTimestamp = pod.Name+"-old", at(-time.Hour)
		return pod
	}
	first := admitted(t, "run-1", "pytorch", 1, func(j *batchv1.Job) { j.Labels[gang.LabelGang] = "nightly" })
	second := admitted(t, "run-2", "pytorch", 1, func(j *batchv1.Job) { j.Labels[gang.LabelGang] = "nightly"; j.CreationTimestamp = at(time.Hour) })
	missed := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "missed", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}}}

	for name, c := range map[string]struct {
		reason  string
		objects []runtime.Object
		ask     string
		want    summary
	}{
		"one workload": {reason: "ranks are the pods' indexes, and one without a pod is seen", ask: "train",
			objects: []runtime.Object{train, podOf(train, 0, readyStatus), podOf(train, 2, failedStatus)},
			want: summary{Name: "train", Phase: gang.Pending, Attempt: "0/3", Count: "1/3", Members: []string{"Job train 0-2"}, Cells: "#.x",
				Cause: "rank 2 (pod train-2): Error, container trainer ended with exit code 3"}},
		"several workloads": {reason: "ranks of a role follow those of the one before", ask: "sim",
			objects: []runtime.Object{worker, launcher, podOf(launcher, 0, readyStatus), podOf(worker, 0, failedStatus), podOf(worker, 1, readyStatus)},
			want: summary{Name: "sim", Phase: gang.Pending, Attempt: "0/3", Count: "2/3", Members: []string{"Job sim-launcher 0", "Job sim-worker 1-2"}, Cells: "#x#",
				Cause: "rank 1 (pod sim-worker-0): Error, container trainer ended with exit code 3"}},
		"a member is missing": {reason: "each member's annotation tells of the others", ask: "sim-launcher",
			objects: []runtime.Object{launcher},
			want:    summary{Name: "sim", Phase: gang.Pending, Attempt: "0/3", Count: "0/3", Members: []string{"Job sim-launcher 0", " sim-worker 1-2"}, Cells: "..."}},
		"restarted": {reason: "the cause that was written counts, and old pods do not", ask: "again",
			objects: []runtime.Object{restarted, podOf(restarted, 0, readyStatus), podOf(restarted, 1, readyStatus), old(podOf(restarted, 1, failedStatus))},
			want: summary{Name: "again", Phase: gang.Running, Attempt: "1/3", Count: "2/2", Members: []string{"Job again 0-1"}, Cells: "##",
				Cause: "rank 1 (pod again-1): OOMKilled"}},
		"runs of a CronJob": {reason: "each is a gang; the latest is meant, and pods of the other are not its", ask: "nightly",
			objects: []runtime.Object{first, second, podOf(first, 0, readyStatus)},
			want:    summary{Name: "nightly", Phase: gang.Pending, Attempt: "0/3", Count: "0/1", Members: []string{"Job run-2 0"}, Cells: ".", Notes: 1}},
		"a run by its own name": {reason: "so the earlier one can be seen too", ask: "run-1",
			objects: []runtime.Object{first, second, podOf(first, 0, readyStatus)},
			want:    summary{Name: "nightly", Phase: gang.Pending, Attempt: "0/3", Count: "1/1", Members: []string{"Job run-1 0"}, Cells: "#"}},
		"never injected": {reason: "it is shown, and has no phase", ask: "missed", objects: []runtime.Object{missed},
			want: summary{Name: "missed", Attempt: "0/3", Count: "0/1", Members: []string{"Job missed 0"}, Cells: "."}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Reader{Client: fake.NewClientset(c.objects...), Namespace: "team"}
			g, err := r.Gang(t.Context(), c.ask)
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			if diff := cmp.Diff(c.want, summarize(g)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestStatefulSetHeldBack(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "jax"}},
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](4), Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer"}}}}},
	}
	if _, err := engine.Admit(gang.Workload{StatefulSet: set}); err != nil {
		t.Fatal(err)
	}
	set.Spec.Replicas = ptr.To[int32](0) // as between two attempts
	g, err := Reader{Client: fake.NewClientset(set), Namespace: "team"}.Gang(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	if g.Size != 4 || !g.Members[0].Suspended {
		t.Errorf("a StatefulSet that is held back keeps the size of its gang: got %+v", g.Members[0])
	}
}

func TestGangs(t *testing.T) {
	elsewhere := admitted(t, "other", "jax", 2)
	elsewhere.Namespace = "other"
	optedOut := admitted(t, "out", "jax", 2)
	optedOut.Labels[gang.LabelInject] = "false"
	launcher := admitted(t, "sim", "mpi", 1, several("launcher", "launcher=1,worker=2"))
	worker := admitted(t, "sim", "mpi", 2, several("worker", "launcher=1,worker=2"))
	worker.Status.Ready = ptr.To[int32](2)
	client := fake.NewClientset(admitted(t, "train", "pytorch", 3), elsewhere, optedOut, worker, launcher)
	for reason, c := range map[string]struct {
		namespace string
		want      []string
	}{
		"a line each, the members of one together": {"team", []string{"team/sim 2/3", "team/train 0/3"}},
		"all namespaces": {"", []string{"other/other 0/2", "team/sim 2/3", "team/train 0/3"}},
		"none":           {"empty", nil},
	} {
		gangs, err := Reader{Client: client, Namespace: c.namespace}.Gangs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range gangs {
			got = append(got, g.Namespace+"/"+g.Name+" "+g.count())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
}

// TestGangsAlike: a gang of one that bears the name of a gang of several is another.
func TestGangsAlike(t *testing.T) {
	several := func(role string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Labels[gang.LabelRole], j.Annotations[gang.AnnotationRoles] = role, "master=1,worker=2"
		}
	}
	r := Reader{Namespace: "team", Client: fake.NewClientset(admitted(t, "train", "pytorch", 2),
		admitted(t, "train-master", "pytorch", 1, several("master")), admitted(t, "train-worker", "pytorch", 2, several("worker")))}
	gangs, err := r.Gangs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[int]int{}
	for _, g := range gangs {
		sizes[len(g.Members)]++
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, sizes); diff != "" {
		t.Errorf("gangs by their number of members (-want +got):\n%s", diff)
	}
}

func TestNoGang(t *testing.T) {
	r := Reader{Client: fake.NewClientset(admitted(t, "train", "pytorch", 3)), Namespace: "team"}
	_, err := r.Gang(t.Context(), "trian")
	var none *ErrNoGang
	if !errors.As(err, &none) || err.Error() != `no gang "trian" in the namespace team; there are train` {
		t.Errorf("error %v", err)
	}
}

func TestEvents(t *testing.T) {
	train := admitted(t, "train", "pytorch", 1)
	event := func(name string, e corev1.Event) *corev1.Event {
		e.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: "team"}
		e.InvolvedObject, e.Reason = corev1.ObjectReference{Kind: "Job", Name: "train", UID: train.UID}, name
		return &e
	}
	client := fake.NewClientset(train,
		event(podCreated, corev1.Event{FirstTimestamp: at(time.Hour)}),
		event("series", corev1.Event{EventTime: metav1.NewMicroTime(noon), Series: &corev1.EventSeries{Count: 5, LastObservedTime: metav1.NewMicroTime(noon.Add(3 * time.Minute))}}),
		event("new", corev1.Event{EventTime: metav1.NewMicroTime(noon.Add(2 * time.Minute))}),
		event("legacy", corev1.Event{FirstTimestamp: at(0), LastTimestamp: at(time.Minute), Count: 2}))
	g, err := Reader{Client: client, Namespace: "team"}.Gang(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range g.Events {
		got = append(got, fmt.Sprintf("%s %s x%d", e.At.UTC().Format("15:04"), e.Reason, e.Count))
	}
	if diff := cmp.Diff([]string{"12:01 legacy x2", "12:02 new x0", "12:03 series x5"}, got); diff != "" {
		t.Errorf("Events of both APIs, in their order (-want +got):\n%s", diff)
	}
}

func TestForbidden(t *testing.T) {
	forbid := func(client *fake.Clientset, verb, resource string) {
		client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no rule"))
		})
	}
	client := fake.NewClientset(admitted(t, "train", "pytorch", 1))
	forbid(client, "list", "events")
	g, err := Reader{Client: client, Namespace: "team"}.Gang(t.Context(), "train")
	if err != nil || len(g.Notes) != 1 {
		t.Errorf("Events are not needed: error %v, notes %q", err, g.Notes)
	}
	forbid(client, "list", "pods")
	if _, err := (Reader{Client: client, Namespace: "team"}).Gang(t.Context(), "train"); !apierrors.IsForbidden(err) {
		t.Errorf("pods are needed: error %v", err)
	}
}

func TestFollow(t *testing.T) {
	train := says(t, admitted(t, "train", "pytorch", 2), gang.Status{Phase: gang.Pending, Since: noon})
	client := fake.NewClientset(train, podOf(train, 0, readyStatus))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	steps := []func() error{
		func() error {
			_, err := client.CoreV1().Pods("team").Create(ctx, podOf(train, 1, readyStatus), metav1.CreateOptions{})
			return err
		},
		func() error {
			done := says(t, train.DeepCopy(), gang.Status{Phase: gang.Succeeded, Since: noon})
			_, err := client.BatchV1().Jobs("team").Update(ctx, done, metav1.UpdateOptions{})
			return err
		},
	}
	var got []string
	err := Reader{Client: client, Namespace: "team"}.Follow(ctx, "train", time.Millisecond, func(g Gang) error {
		now := string(g.Phase) + " " + summarize(g).Cells
		if len(got) > 0 && got[len(got)-1] == now {
			return nil
		}
		got = append(got, now)
		if len(steps) == 0 {
			return nil
		}
		step := steps[0]
		steps = steps[1:]
		return step()
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Pending #.", "Pending ##", "Succeeded ##"}, got); diff != "" {
		t.Errorf("what was handed out (-want +got):\n%s", diff)
	}
}

func TestFollowEnds(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		do     func(context.Context, *fake.Clientset) error
		is     func(error) bool
	}{
		"deleted": {"a gang that is gone has no end to wait for",
			func(ctx context.Context, client *fake.Clientset) error {
				return client.BatchV1().Jobs("team").Delete(ctx, "train", metav1.DeleteOptions{})
			}, func(err error) bool { return errors.Is(err, ErrGone) }},
		"told to": {"the caller's error ends it",
			func(context.Context, *fake.Clientset) error { return errors.New("enough") },
			func(err error) bool { return err != nil && err.Error() == "enough" }},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(admitted(t, "train", "pytorch", 2))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := Reader{Client: client, Namespace: "team"}.Follow(ctx, "train", time.Millisecond, func(Gang) error { return c.do(ctx, client) })
			if !c.is(err) {
				t.Errorf("%s: error %v", c.reason, err)
			}
		})
	}
}

func TestFollowMayNotWatch(t *testing.T) {
	client := fake.NewClientset(admitted(t, "train", "pytorch", 2))
	client.PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no rule"))))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := Reader{Client: client, Namespace: "team"}.Follow(ctx, "train", time.Millisecond, func(Gang) error { return nil })
	if !apierrors.IsForbidden(err) {
		t.Errorf("who may list and not watch is told, and does not wait for ever: error %v", err)
	}
}
