package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors/ssh"
	"rollcall.training/internal/lifecycle"
)

// TestKeyPairRetry checks when the create request of a Secret is due.
func TestKeyPairRetry(t *testing.T) {
	now := testStartTime.Add(time.Hour)
	afterConflict := func() keyPairRetry {
		k := keyPairRetry{}.forOwner("service", 1)
		k.recordExists(now, now.Add(-time.Minute)) // the owner is a minute old
		return k
	}
	afterCreation := func() keyPairRetry {
		k := keyPairRetry{}.forOwner("service", 1)
		k.recordCreated(now)
		return k
	}
	for name, c := range map[string]struct {
		retry       keyPairRetry
		now         time.Time
		wantDelay   time.Duration
		wantCreated bool
	}{
		"first request is due":             {retry: keyPairRetry{}.forOwner("service", 1), now: now},
		"conflict delays the next request": {retry: afterConflict(), now: now, wantDelay: 15 * time.Second},
		"delay elapses":                    {retry: afterConflict(), now: now.Add(15 * time.Second)},
		"same owner and attempt keep the delay": {
			retry:     afterConflict().forOwner("service", 1),
			now:       now,
			wantDelay: 15 * time.Second,
		},
		"new owner is due":   {retry: afterConflict().forOwner("other", 1), now: now},
		"new attempt is due": {retry: afterConflict().forOwner("service", 2), now: now},
		"created Secret is not created again": {
			retry:       afterCreation().forOwner("service", 1),
			now:         now,
			wantDelay:   keyPairMountTimeout,
			wantCreated: true,
		},
		"created Secret is created again in a new attempt": {
			retry: afterCreation().forOwner("service", 2),
			now:   now,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.retry.remainingDelay(c.now); got != c.wantDelay || c.retry.created != c.wantCreated {
				t.Errorf("delay %s, created %v; want %s, %v", got, c.retry.created, c.wantDelay, c.wantCreated)
			}
		})
	}
}

// keyPairSecretKey is the key of the Secret of the gang train.
var keyPairSecretKey = client.ObjectKey{Namespace: "team", Name: "train-rollcall-ssh"}

// reconcileFor runs a pass every second for a period.
func (w *testCluster) reconcileFor(t *testing.T, period time.Duration) {
	t.Helper()
	for end := w.clock.Now().Add(period); w.clock.Now().Before(end); {
		w.reconcileOnce(t, trainRequest)
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
}

// restartManager replaces the reconciler, which forgets what it kept between two passes.
func (w *testCluster) restartManager() {
	w.sessions = sessions{}
}

// readReason returns the reason in the status of the launcher.
func (w *testCluster) readReason(t *testing.T) gang.Reason {
	t.Helper()
	job := newLauncherJob(t)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
		t.Fatal(err)
	}
	return lifecycle.ReadStatus(gang.Workload{Job: job}).Reason
}

// hasKeyPair reports whether the Secret exists.
func (w *testCluster) hasKeyPair(t *testing.T) bool {
	t.Helper()
	err := w.Get(t.Context(), keyPairSecretKey, &corev1.Secret{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// TestKeyPairOfSomebodyElse checks that a Secret that existed before its gang is reported until it is
// deleted, also by a manager that was restarted.
func TestKeyPairOfSomebodyElse(t *testing.T) {
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: keyPairSecretKey.Namespace, Name: keyPairSecretKey.Name,
	}}
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t), foreign)
	w.reconcileFor(t, foreignKeyPairGracePeriod)
	if got := w.readReason(t); got == gang.ReasonKeyPairConflict {
		t.Error("the Secret is reported although it may belong to a gang that is being deleted")
	}
	w.reconcileFor(t, time.Minute)
	if got := w.readReason(t); got != gang.ReasonKeyPairConflict {
		t.Errorf("reason %q after a minute, want %q", got, gang.ReasonKeyPairConflict)
	}
	w.restartManager()
	w.reconcileFor(t, time.Minute)
	if got := w.readReason(t); got != gang.ReasonKeyPairConflict {
		t.Errorf("reason %q after a restart of the manager, want %q", got, gang.ReasonKeyPairConflict)
	}
	if err := w.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.reconcileFor(t, 2*time.Minute)
	if got := w.readReason(t); got == gang.ReasonKeyPairConflict || !w.hasKeyPair(t) {
		t.Errorf("reason %q, Secret created: %t, after the foreign Secret was deleted", got, w.hasKeyPair(t))
	}
}

// TestKeyPairAfterManagerRestart checks that a manager that was restarted does not take the Secret of
// the gang for somebody else's.
func TestKeyPairAfterManagerRestart(t *testing.T) {
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t))
	w.reconcileFor(t, newOwnerAge+time.Second)
	w.restartManager()
	w.reconcileFor(t, 5*time.Minute)
	if got := w.readReason(t); got == gang.ReasonKeyPairConflict {
		t.Errorf("reason %q", got)
	}
}

// TestDeletedKeyPair checks that a deleted Secret is created again in the same attempt, if a pod waits for
// it.
func TestDeletedKeyPair(t *testing.T) {
	setupState := func(s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: ssh.SetupContainerName, State: s}}
	}
	waiting := setupState(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}})
	for name, c := range map[string]struct {
		setup []corev1.ContainerStatus
		want  bool
	}{
		"pod waits for its volumes": {
			setup: waiting,
			want:  true,
		},
		"the kubelet has not reported the containers": {
			want: true,
		},
		"pod has mounted its volumes": {
			setup: setupState(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}),
			want:  false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t))
			w.reconcileFor(t, time.Minute)
			if !w.hasKeyPair(t) {
				t.Fatal("the Secret was not created")
			}
			err := w.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: keyPairSecretKey.Namespace, Name: keyPairSecretKey.Name,
			}})
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "team", Name: "train-worker-0", Labels: map[string]string{gang.LabelGang: "train"},
					OwnerReferences: []metav1.OwnerReference{{
						APIVersion: "apps/v1", Kind: "StatefulSet", Name: "train-worker", UID: "train-worker", Controller: ptr.To(true),
					}},
				},
				Status: corev1.PodStatus{
					Phase:                 corev1.PodPending,
					InitContainerStatuses: c.setup,
					Conditions: []corev1.PodCondition{{
						Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()),
					}},
				},
			}
			if err := w.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.reconcileFor(t, keyPairMountTimeout)
			if w.hasKeyPair(t) {
				t.Errorf("the Secret was created again before the pod had waited %s", keyPairMountTimeout)
			}
			w.reconcileFor(t, time.Minute)
			if got := w.hasKeyPair(t); got != c.want {
				t.Errorf("Secret created again: %t, want %t", got, c.want)
			}
		})
	}
}

// TestKeyPairSecretConflict checks that the create request of a conflicting Secret is repeated
// with increasing delays, however often the gang changes, and that the Secret of the gang is
// created once.
func TestKeyPairSecretConflict(t *testing.T) {
	conflicting := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-rollcall-ssh"}}
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t), conflicting)
	for range 360 {
		if after := w.reconcileOnce(t, trainRequest); after <= 0 || after > 5*time.Minute {
			t.Fatalf("after %s, the next pass is due in %s", w.clock.Since(testStartTime), after)
		}
		w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	}
	if w.secretCreates < 10 || w.secretCreates > 40 {
		t.Errorf("%d create requests in an hour", w.secretCreates)
	}
	if err := w.Delete(t.Context(), conflicting); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	before := w.secretCreates
	for range 10 {
		w.reconcileOnce(t, trainRequest)
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
	}
	if w.secretCreates != before+1 {
		t.Errorf("the Secret of the gang was created %d times", w.secretCreates-before)
	}
}

// TestKeyPairNotNeeded checks that no Secret is created for a gang that does not need a key pair.
func TestKeyPairNotNeeded(t *testing.T) {
	suspended := newLauncherJob(t)
	suspended.Spec.Suspend = ptr.To(true)
	running := newWorkerStatefulSet(t)
	running.Status.ReadyReplicas = 3
	ready := newLauncherJob(t)
	ready.Status.Ready = ptr.To[int32](1)
	torch := admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train-master", "pytorch", "master", "master=1,worker=3"),
		Spec:       singlePodJobSpec(),
	})
	for name, objects := range map[string][]client.Object{
		"suspended gang": {suspended, newWorkerStatefulSet(t)},
		"running gang, whose pods have mounted the Secret": {ready, running},
		"framework without a key pair":                     {torch},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t, objects...)
			w.reconcileOnce(t, trainRequest)
			if w.secretCreates != 0 {
				t.Error("a Secret was created")
			}
		})
	}
}
