package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestIdentity checks that workloads that only have the name of a gang are reported and do not count.
func TestIdentity(t *testing.T) {
	const roles = "launcher=1,worker=2"
	completed := newAdmittedJob(t, "sim", "mpi", 1, withRole("launcher", roles))
	completed.CreationTimestamp = timeAfter(-2 * time.Hour)
	completed.Status.Conditions = []batchv1.JobCondition{{
		Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: timeAfter(-time.Hour),
	}}
	setStatus(t, completed, lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Succeeded}})

	running := lifecycle.Status{State: lifecycle.State{
		Phase:       lifecycle.Running,
		Restarts:    2,
		Bookkeeping: lifecycle.Bookkeeping{MemberUIDs: []types.UID{"uid-sim-launcher", "uid-sim-worker"}},
	}}
	launcher := setStatus(t, newAdmittedJob(t, "sim", "mpi", 1, withRole("launcher", roles)), running)
	worker := setStatus(t, newAdmittedJob(t, "sim", "mpi", 2, withRole("worker", roles)), running)
	stranger := newAdmittedJob(t, "sim", "mpi", 2, withRole("worker", roles))
	stranger.Name, stranger.UID, stranger.Labels[gang.LabelGang] = "other-worker", "uid-other-worker", "sim"
	setStatus(t, stranger, lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Failed}})

	for name, c := range map[string]struct {
		objects  []runtime.Object
		gangName string
		want     gangSummary
		warnings []string
	}{
		"a Job of an earlier run is not a member": {
			objects:  []runtime.Object{completed, newAdmittedJob(t, "sim", "mpi", 2, withRole("worker", roles))},
			gangName: "sim",
			want: gangSummary{
				Name: "sim", Phase: lifecycle.Pending, Restarts: "0/3", ReadyCount: "0/3",
				Members: []string{" sim-launcher 0", "Job sim-worker 1-2"}, Cells: "...", Warnings: 1,
			},
			warnings: []string{"Job sim-launcher finished before other workloads of the gang were created " +
				"and belongs to an earlier run"},
		},
		"a stranger neither counts nor determines the phase": {
			objects: []runtime.Object{
				stranger, launcher, worker,
				newPod(launcher, 0, readyStatus), newPod(worker, 0, readyStatus), newPod(worker, 1, readyStatus),
				newPod(stranger, 1, failedStatus),
			},
			gangName: "sim",
			want: gangSummary{
				Name: "sim", Phase: lifecycle.Running, Restarts: "2/3", ReadyCount: "3/3",
				Members: []string{"Job sim-launcher 0", "Job sim-worker 1-2"}, Cells: "###", Warnings: 1,
			},
			warnings: []string{"Job other-worker has the name of the gang, but is not a member"},
		},
		"the name of a stranger selects the gang that reports the stranger": {
			objects:  []runtime.Object{stranger, launcher, worker},
			gangName: "other-worker",
			want: gangSummary{
				Name: "sim", Phase: lifecycle.Running, Restarts: "2/3", ReadyCount: "0/3",
				Members: []string{"Job sim-launcher 0", "Job sim-worker 1-2"}, Cells: "...", Warnings: 1,
			},
			warnings: []string{"Job other-worker has the name of the gang, but is not a member"},
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
			if diff := cmp.Diff(c.warnings, g.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGangInOtherCluster checks that a Job whose copy runs in another cluster is described.
func TestGangInOtherCluster(t *testing.T) {
	copied := newAdmittedJob(t, "train", "pytorch", 2)
	copied.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue")
	delete(copied.Labels, gang.LabelPhase)
	g, err := newReader(fake.NewClientset(copied)).GetGang(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	const want = "Kueue runs a copy of the Job in another cluster, which has the pods and the status"
	if g.Phase != "" || g.Message != want {
		t.Errorf("the phase is %q, the message %q", g.Phase, g.Message)
	}
}
