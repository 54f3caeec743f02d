package controller

import (
	"errors"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

func newSuspendedJob(t *testing.T, queue string) *batchv1.Job {
	t.Helper()
	text, err := lifecycle.Status{
		State: lifecycle.State{
			Phase:       lifecycle.Restarting,
			Restarts:    1,
			Bookkeeping: lifecycle.Bookkeeping{SuspendedByRollcall: true},
		},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "train",
			Labels:      map[string]string{},
			Annotations: map[string]string{gang.AnnotationStatus: text},
		},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true)},
	}
	if queue != "" {
		j.Labels[gang.LabelQueueName] = queue
	}
	j.Spec.Template.Labels = map[string]string{gang.LabelAttempt: "0"}
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: "True"}}
	return j
}

// TestIsManagedByQueue checks whether Kueue resumes a Job that Rollcall suspended.
func TestIsManagedByQueue(t *testing.T) {
	served := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{kueueWorkloadKind.WithVersion("v1beta2").GroupVersion()})
	served.Add(kueueWorkloadKind.WithVersion("v1beta2"), apimeta.RESTScopeNamespace)
	for name, c := range map[string]struct {
		queue   string
		mapper  apimeta.RESTMapper
		want    bool
		wantErr bool
	}{
		"Job in a queue of Kueue": {queue: "team", mapper: served, want: true},
		"Job without a queue":     {mapper: served},
		"cluster without Kueue":   {queue: "team", mapper: apimeta.NewDefaultRESTMapper(nil)},
		"API that cannot be discovered may be Kueue": {
			queue:   "team",
			mapper:  undiscoverable{apimeta.NewDefaultRESTMapper(nil)},
			wantErr: true,
		},
	} {
		r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRESTMapper(c.mapper).Build()}
		got, err := r.isManagedByQueue(gang.Workload{Job: newSuspendedJob(t, c.queue)})
		if got != c.want || (err != nil) != c.wantErr {
			t.Errorf("%s: %v, %v; want %v, error %v", name, got, err, c.want, c.wantErr)
		}
	}
}

// undiscoverable is a mapper whose discovery fails, as with an unavailable aggregated API.
type undiscoverable struct{ apimeta.RESTMapper }

func (undiscoverable) RESTMapping(schema.GroupKind, ...string) (*apimeta.RESTMapping, error) {
	return nil, errors.New("the server is currently unable to handle the request")
}

// TestReleaseToQueue checks the action for a Job in a queue that Rollcall suspended.
func TestReleaseToQueue(t *testing.T) {
	for name, c := range map[string]struct {
		phase                   lifecycle.Phase
		suspendedByUser         bool
		wantAction              action
		wantSuspendedByRollcall bool
		wantAttempt             string
	}{
		"restarting gang": {
			phase:                   lifecycle.Restarting,
			wantAction:              actionSuspend,
			wantSuspendedByRollcall: true,
			wantAttempt:             "0",
		},
		"restart is handed to the queue": {
			phase:       lifecycle.Suspended,
			wantAction:  actionReleaseToQueue,
			wantAttempt: "1",
		},
		"other members are resumed by Rollcall": {
			phase:       lifecycle.Pending,
			wantAction:  actionReleaseToQueue,
			wantAttempt: "1",
		},
		"user suspended another member": {
			phase:                   lifecycle.Suspended,
			suspendedByUser:         true,
			wantAction:              actionNone,
			wantSuspendedByRollcall: true,
			wantAttempt:             "0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := member{Member: roster.Member{Workload: gang.Workload{Job: newSuspendedJob(t, "team")}}, managedByQueue: true}
			p := &observedGang{
				pass:         &pass{},
				Roster:       roster.Roster[member]{Members: []member{m}},
				memberStates: lifecycle.Members{{Exists: true, Observed: m.observeStatus()}},
			}
			if c.suspendedByUser {
				p.memberStates = append(p.memberStates, lifecycle.MemberState{
					Exists:   true,
					Observed: lifecycle.Observation{IsStatefulSet: true, Suspended: true},
				})
			}
			s := lifecycle.Status{State: lifecycle.State{Phase: c.phase, Bookkeeping: lifecycle.Bookkeeping{Attempt: 1}}}
			got := desiredAction(p, m, s.State)
			if got != c.wantAction {
				t.Fatalf("action %d, want %d", got, c.wantAction)
			}
			changed := gang.Workload{Job: m.Job.DeepCopy()}
			mutateWorkload(changed, got, &s, m.lastStatus())
			attempt, isSuspended := changed.Template().Labels[gang.LabelAttempt], *changed.Job.Spec.Suspend
			if !isSuspended || s.SuspendedByRollcall != c.wantSuspendedByRollcall || attempt != c.wantAttempt {
				t.Errorf(
					"suspended %v, by Rollcall %v, attempt %s; want true, %v, %s",
					isSuspended,
					s.SuspendedByRollcall,
					attempt,
					c.wantSuspendedByRollcall,
					c.wantAttempt,
				)
			}
		})
	}
}
