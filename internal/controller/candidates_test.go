package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

// TestStrangerOfPendingGang checks that a workload that is created before the gang has a status does not
// freeze the gang, and does not become an owner of its Service.
func TestStrangerOfPendingGang(t *testing.T) {
	for name, c := range map[string]struct {
		age         time.Duration
		ownsService bool // false for a Service of the user
		want        lifecycle.Phase
	}{
		"stranger is created after 8 seconds":          {age: 8 * time.Second, ownsService: true, want: lifecycle.Restarting},
		"stranger is created after an hour":            {age: time.Hour, ownsService: true, want: lifecycle.Restarting},
		"Service of a user does not identify the gang": {age: time.Hour, want: lifecycle.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			master.Status, worker.Status = batchv1.JobStatus{Active: 1}, batchv1.JobStatus{Active: 3}
			w := newTestCluster(t, master, worker)
			w.reconcileOnce(t, trainRequest)
			if _, status := w.getJob(t, "train-master"); status.Phase != "" {
				t.Fatalf("the gang has a status: %+v", status)
			}
			service := w.getService(t, "train")
			if !c.ownsService {
				delete(service.Labels, "app.kubernetes.io/managed-by")
				if err := w.Update(t.Context(), service); err != nil {
					t.Fatal(err)
				}
			}
			w.clock.SetTime(testStartTime.Add(c.age))
			set, _ := newStranger(t)
			set.CreationTimestamp = metav1.NewTime(w.clock.Now())
			if err := w.Create(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				w.reconcileOnce(t, trainRequest)
			}
			failed, _ := w.getJob(t, "train-worker")
			failed.Status.Failed = 1
			if err := w.Status().Update(t.Context(), failed); err != nil {
				t.Fatal(err)
			}
			w.reconcileOnce(t, trainRequest)
			w.clock.SetTime(w.clock.Now().Add(30 * time.Second)) // the cache may not contain the pod
			w.reconcileOnce(t, trainRequest)
			job, status := w.getJob(t, "train-master")
			if status.Phase != c.want || ptr.Deref(job.Spec.Suspend, false) != (c.want == lifecycle.Restarting) {
				t.Errorf("status %+v, want phase %s", status, c.want)
			}
			if n := len(w.getService(t, "train").OwnerReferences); n != 2 {
				t.Errorf("%d owners of the Service, want 2", n)
			}
		})
	}
}

// newNamesakes returns n Jobs and n StatefulSets with the name of the gang, each with a role of its own.
func newNamesakes(t testing.TB, n int) []client.Object {
	t.Helper()
	var out []client.Object
	for i := range n {
		role := fmt.Sprintf("x%d", i)
		job := &batchv1.Job{ObjectMeta: newObjectMeta("train-"+role, "generic", role, role+"=1"), Spec: singlePodJobSpec()}
		set := &appsv1.StatefulSet{ObjectMeta: newObjectMeta("train-y"+role, "generic", "y"+role, "y"+role+"=1")}
		set.Spec = appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Template: *podTemplate.DeepCopy()}
		out = append(out, admitObject(t, job), admitObject(t, set))
	}
	return out
}

// TestManyWorkloads checks that a pass parses a limited number of workloads with the name of a gang, that the
// members are among them, and that a gang whose members are not known is frozen.
func TestManyWorkloads(t *testing.T) {
	for name, c := range map[string]struct {
		hasStatus, hasService bool
		wantPhase             lifecycle.Phase
		wantMessage           string
	}{
		"status identifies the members": {
			hasStatus: true, wantPhase: lifecycle.Restarting, wantMessage: "more than 64 Jobs or 64 StatefulSets",
		},
		"Service identifies the members": {
			hasService: true, wantPhase: lifecycle.Restarting, wantMessage: "more than 64 Jobs or 64 StatefulSets",
		},
		"nothing identifies the members": {
			wantPhase: lifecycle.Pending, wantMessage: "conflicting settings: more than 64 Jobs or 64 StatefulSets",
		},
	} {
		t.Run(name, func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			objects := append(newNamesakes(t, 2*maxCandidates), master, worker)
			for _, o := range objects[:len(objects)-2] {
				o.SetCreationTimestamp(metav1.NewTime(testStartTime.Add(-time.Hour))) // before the members
			}
			worker.Status.Failed = 1
			if c.hasStatus {
				for _, job := range []*batchv1.Job{master, worker} {
					setRunning(t, gang.Workload{Job: job}, master.UID, worker.UID)
				}
			}
			w := newTestCluster(t, objects...)
			if c.hasService {
				w.createServiceOf(t, master, worker)
			}
			for range 2 {
				w.reconcileOnce(t, trainRequest)
			}
			w.clock.SetTime(w.clock.Now().Add(30 * time.Second)) // the cache may not contain the pod
			w.reconcileOnce(t, trainRequest)
			_, status := w.getJob(t, "train-master")
			if c.wantPhase == lifecycle.Pending { // the members are not among the oldest
				oldest, _ := w.getJob(t, "train-x0")
				status = lifecycle.ReadStatus(gang.Workload{Job: oldest})
			}
			if status.Phase != c.wantPhase || !strings.Contains(status.Message, c.wantMessage) {
				t.Errorf("status %+v, want %s with %q", status, c.wantPhase, c.wantMessage)
			}
			g := w.observeTrain(t)
			parsed := len(g.Members) + len(g.Strangers) + len(g.EarlierRun)
			if parsed != 2*maxCandidates {
				t.Errorf("a pass parsed %d workloads, want %d", parsed, 2*maxCandidates)
			}
		})
	}
}

func setRunning(t *testing.T, w gang.Workload, members ...types.UID) {
	t.Helper()
	state := lifecycle.State{Phase: lifecycle.Running, LastTransitionTime: testStartTime}
	state.MemberUIDs = members
	status := lifecycle.Status{Reason: gang.ReasonGangRunning, State: state}
	if err := status.WriteTo(w); err != nil {
		t.Fatal(err)
	}
}

// createServiceOf creates the Service that the first pass of the members would create.
func (w *testCluster) createServiceOf(t *testing.T, members ...*batchv1.Job) {
	t.Helper()
	result, err := testEngine.Describe(gang.Workload{Job: members[0]})
	if err != nil {
		t.Fatal(err)
	}
	g := &observedGang{}
	for _, m := range members {
		g.Members = append(g.Members, member{Member: roster.Member{Workload: gang.Workload{Job: m}}})
	}
	service := result.BuildService()
	if err := w.setOwners(g, service); err != nil {
		t.Fatal(err)
	}
	if err := w.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
}

// observeTrain returns the gang train as a pass observes it.
func (w *testCluster) observeTrain(t testing.TB) *observedGang {
	t.Helper()
	groups, err := w.listGangs(t.Context(), trainRequest)
	if err != nil || len(groups) != 1 {
		t.Fatalf("%d groups, %v", len(groups), err)
	}
	gangs, err := w.observeGangs(t.Context(), &pass{request: trainRequest, session: &session{}}, groups[0])
	if err != nil || len(gangs) != 1 {
		t.Fatalf("%d gangs, %v", len(gangs), err)
	}
	return gangs[0]
}

// BenchmarkManyWorkloads measures the observation of a gang whose name many workloads have. The time does not
// grow with their number beyond the limit.
func BenchmarkManyWorkloads(b *testing.B) {
	for _, n := range []int{maxCandidates, 1_000, 5_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := &Reconciler{Engine: testEngine}
			var workloads []gang.Workload
			template := newNamesakes(b, 1)
			for i := range n {
				w, err := gang.WorkloadOf(template[i%2].DeepCopyObject().(client.Object))
				if err != nil {
					b.Fatal(err)
				}
				w.Meta().UID = types.UID(fmt.Sprint(i))
				workloads = append(workloads, w)
			}
			setStatus := lifecycle.Status{}
			setStatus.MemberUIDs = []types.UID{"0"}
			if err := setStatus.WriteTo(workloads[0]); err != nil {
				b.Fatal(err)
			}
			group := roster.Group{Namespace: "team", Name: "train", MultiWorkload: true, Workloads: slices.Clone(workloads)}
			for b.Loop() {
				if _, err := r.observeGangs(b.Context(), &pass{request: trainRequest, session: &session{}}, group); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
