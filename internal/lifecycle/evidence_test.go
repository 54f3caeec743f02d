package lifecycle

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// newRestartEvidence returns the evidence of a running gang of a Job with two ranks, and the state of the gang in
// attempt 1.
func newRestartEvidence() (Evidence, State) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2)}}
	job.Status = batchv1.JobStatus{Active: 2, Ready: ptr.To[int32](2), StartTime: ptr.To(metav1.NewTime(podtest.At(0)))}
	e := Evidence{Now: podtest.At(100), Workloads: []WorkloadEvidence{{
		Workload: gang.Workload{Job: job},
		Gang: gang.Gang{
			Members: []gang.Member{{Size: 2}}, Containers: []gang.Container{{Name: "trainer"}},
			RestartRules: gang.RestartRules{RestartOnNodeLoss: true},
		},
		Pods: []corev1.Pod{podtest.RankPod(0, nil), podtest.RankPod(1, nil)},
	}}}
	return e, State{
		Phase: Running, LastTransitionTime: podtest.At(5),
		Bookkeeping: Bookkeeping{Attempt: 1, AttemptStartTime: podtest.At(0)},
	}
}

// TestRestartByEvidence checks which evidence restarts a gang, from the objects that a pass reads to the next phase.
func TestRestartByEvidence(t *testing.T) {
	policies := gang.RestartRules{RestartPolicy: gang.RestartPolicyGang, MaxRestarts: 1, MaxDisruptions: -1}
	change := func(index int, change func(*corev1.Pod)) func(*Evidence, *State) {
		return func(e *Evidence, _ *State) { change(&e.Workloads[0].Pods[index]) }
	}
	job := func(e *Evidence) *batchv1.Job { return e.Workloads[0].Job }
	silent := RankLog{
		Matches: 2, MatchTime: podtest.At(0), ReadTime: podtest.At(100),
		Source: RankLogSource{Rules: gang.StallRules{Action: gang.StallRestart, Timeout: 100 * time.Second}},
	}
	replaceSetPods := func(e *Evidence, s *State) {
		e.Workloads[0].Workload = gang.Workload{StatefulSet: &appsv1.StatefulSet{
			Spec:   appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)},
			Status: appsv1.StatefulSetStatus{ReadyReplicas: 2},
		}}
		for i := range e.Workloads[0].Pods {
			pod := &e.Workloads[0].Pods[i]
			podtest.OfStatefulSet(pod)
			pod.UID = "new"
		}
		s.StatefulSetPods = "2-0000000000000000"
	}
	createdAt := func(seconds int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp.Time = podtest.At(seconds) }
	}
	terminatedByKubelet := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
			LastTransitionTime: metav1.NewTime(podtest.At(21)),
		}}
	}
	for name, c := range map[string]struct {
		change            func(*Evidence, *State)
		determines        bool
		want              Phase
		reason            string
		wantUntracked     bool
		restarts, evicted int32
	}{
		"all ranks run": {want: Running},
		"a container failed": {
			change: change(1, podtest.Terminated(3, 20, true)), want: Restarting, reason: "Error", restarts: 1,
		},
		"a stalled container handled SIGTERM and exited with code 0": {
			change: func(e *Evidence, _ *State) {
				e.Workloads[0].Gang.StallRules = gang.StallRules{File: "/f", Action: gang.StallRestart}
				podtest.Terminated(0, 20, true)(&e.Workloads[0].Pods[1])
			},
			want: Restarting, reason: failure.ReasonStalled, restarts: 1,
		},
		"a container without a probe of Rollcall exited with code 0": {
			change: func(e *Evidence, _ *State) {
				e.Workloads[0].Gang.StallRules = gang.StallRules{Action: gang.StallRestart}
				podtest.Terminated(0, 20, true)(&e.Workloads[0].Pods[1])
			},
			want: Running,
		},
		"rank 0 prints no line that matches its pattern": {
			change: func(e *Evidence, _ *State) { e.RankLog = silent },
			want:   Restarting, reason: failure.ReasonStalled, restarts: 1,
		},
		"rank 0 prints no line that matches its pattern, and has said that it stops": {
			change: func(e *Evidence, _ *State) { e.RankLog = silent; e.RankLog.Stopped = true }, want: Running,
		},
		"rank 0 prints a line of a fault": {
			change: func(e *Evidence, _ *State) { e.RankLog = RankLog{Faulted: true, Source: silent.Source} },
			want:   Restarting, reason: failure.ReasonStalled, restarts: 1,
		},
		"rank 0 prints no line because another rank failed": {
			change: func(e *Evidence, s *State) { e.RankLog = silent; change(1, podtest.Terminated(3, 20, true))(e, s) },
			want:   Restarting, reason: "Error", restarts: 1,
		},
		"a kubelet terminated a rank that exited a second before the condition": {
			change: change(1, func(p *corev1.Pod) {
				podtest.Terminated(143, 20, false)(p)
				terminatedByKubelet(p)
				p.Status.Phase = corev1.PodFailed
			}),
			want: Restarting, reason: corev1.PodReasonTerminationByKubelet, evicted: 1,
		},
		"a kubelet terminated a rank that exited with code 0, and the Job counts it as completed": {
			change: func(e *Evidence, _ *State) {
				job(e).Status.CompletedIndexes, job(e).Status.Succeeded, job(e).Status.Active = "1", 1, 1
				podtest.Terminated(0, 20, false)(&e.Workloads[0].Pods[1])
				terminatedByKubelet(&e.Workloads[0].Pods[1])
			},
			want: Restarting, reason: corev1.PodReasonTerminationByKubelet, evicted: 1,
		},
		"a container failed after a user resumed the Job, which a manager observed later": {
			change: func(e *Evidence, s *State) {
				s.AttemptStartTime = podtest.At(90)
				podtest.Terminated(3, 20, true)(&e.Workloads[0].Pods[1])
			},
			want: Restarting, reason: "Error", restarts: 1,
		},
		"a container failed in an earlier attempt": {
			change: change(1, func(p *corev1.Pod) {
				podtest.Terminated(3, -20, false)(p)
				p.Status.Phase, p.Labels[gang.LabelAttempt] = corev1.PodFailed, "0"
			}),
			want: Running,
		},
		"the Job was resumed and still counts the ready pods from before its suspension": {
			change: func(e *Evidence, s *State) {
				s.Phase = Pending
				for i := range e.Workloads[0].Pods {
					e.Workloads[0].Pods[i].Status = corev1.PodStatus{Phase: corev1.PodFailed}
					e.Workloads[0].Pods[i].Labels[gang.LabelAttempt] = "0"
				}
			},
			want: Pending,
		},
		"a pod is drained": {
			change: change(1, podtest.Drained), want: Restarting, reason: failure.ReasonPodDeleted,
			wantUntracked: true, evicted: 1,
		},
		"the node of a pod is lost": {
			change: change(1, podtest.OnLostNode(20)), want: Restarting, reason: failure.ReasonNodeLost, evicted: 1,
		},
		"the node of a pod is lost, and the gang waits for it": {
			change: func(e *Evidence, _ *State) {
				e.Workloads[0].Gang.RestartRules.RestartOnNodeLoss = false
				podtest.OnLostNode(20)(&e.Workloads[0].Pods[1])
			},
			want: Running,
		},
		"a pod is gone that the Job counts": {
			change: func(e *Evidence, _ *State) {
				job(e).Status.Failed, e.Workloads[0].Pods = 1, e.Workloads[0].Pods[:1]
			},
			want: Restarting, reason: failure.ReasonUnobserved, evicted: 1,
		},
		"a pod is gone that the Job replaced and does not count": {
			change: change(1, createdAt(60)), want: Restarting, reason: failure.ReasonUnobserved, evicted: 1,
		},
		"a pod failed that the Job has replaced": {
			change: func(e *Evidence, _ *State) {
				podtest.Terminated(3, 20, false)(&e.Workloads[0].Pods[1])
				e.Workloads[0].Pods[1].Status.Phase = corev1.PodFailed
				e.Workloads[0].Pods = append(e.Workloads[0].Pods, podtest.RankPod(1, createdAt(60)))
			},
			want: Restarting, reason: "Error", restarts: 1,
		},
		"an elastic gang has a new pod": {
			change: func(e *Evidence, _ *State) {
				e.Workloads[0].Gang.Elastic = &gang.ElasticBounds{Min: 1, Max: 2}
				createdAt(60)(&e.Workloads[0].Pods[1])
			},
			want: Running,
		},
		"the Job was recreated after a complete Job of the gang": {
			change: func(e *Evidence, _ *State) {
				job(e).Status.StartTime.Time = podtest.At(59)
				createdAt(60)(&e.Workloads[0].Pods[1])
			},
			want: Running,
		},
		"a rank completed without a pod": {
			change: func(e *Evidence, s *State) {
				job(e).Status.CompletedIndexes, e.Workloads[0].Pods = "1", e.Workloads[0].Pods[:1]
				s.CompletedRanks = NoRanks
			},
			want: Restarting, reason: failure.ReasonRankLost, evicted: 1,
		},
		"a recorded rank completed": {
			change: func(e *Evidence, s *State) {
				job(e).Status.CompletedIndexes, e.Workloads[0].Pods = "1", e.Workloads[0].Pods[:1]
				s.CompletedRanks = "1"
			},
			want: Running,
		},
		"a container failed after the master succeeded": {
			determines: true,
			change: func(e *Evidence, _ *State) {
				job(e).Spec.SuccessPolicy = &batchv1.SuccessPolicy{
					Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}},
				}
				podtest.Tracked(&e.Workloads[0].Pods[0])
				podtest.Terminated(0, 20, false)(&e.Workloads[0].Pods[0])
				podtest.Terminated(1, 21, true)(&e.Workloads[0].Pods[1])
			},
			want: Running,
		},
		"a container failed after the only Job of the gang met its successPolicy": {
			change: func(e *Evidence, _ *State) {
				job(e).Spec.SuccessPolicy = &batchv1.SuccessPolicy{
					Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](1)}},
				}
				podtest.Tracked(&e.Workloads[0].Pods[1])
				podtest.Terminated(0, 20, false)(&e.Workloads[0].Pods[1])
				podtest.Terminated(1, 21, true)(&e.Workloads[0].Pods[0])
			},
			want: Running,
		},
		"a pod is drained that the successPolicy needs, after another one succeeded": {
			change: func(e *Evidence, _ *State) {
				job(e).Spec.SuccessPolicy = &batchv1.SuccessPolicy{
					Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}},
				}
				podtest.Terminated(0, 20, false)(&e.Workloads[0].Pods[1])
				podtest.Drained(&e.Workloads[0].Pods[0])
			},
			want: Restarting, reason: failure.ReasonPodDeleted, wantUntracked: true, evicted: 1,
		},
		"the Job controller deletes the pods after its successPolicy was met": {
			change: func(e *Evidence, _ *State) {
				job(e).Spec.SuccessPolicy = &batchv1.SuccessPolicy{
					Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}},
				}
				podtest.Terminated(0, 20, false)(&e.Workloads[0].Pods[0])
				podtest.Deleted(25)(&e.Workloads[0].Pods[1])
			},
			want: Running,
		},
		"the deadline of the Job has passed": {
			change: func(e *Evidence, _ *State) {
				job(e).Spec.ActiveDeadlineSeconds = ptr.To[int64](90)
				podtest.Drained(&e.Workloads[0].Pods[1])
			},
			want: Running, wantUntracked: true,
		},
		"a StatefulSet replaced a pod": {
			change: replaceSetPods, want: Restarting, reason: failure.ReasonPodDeleted, evicted: 1,
		},
		"a StatefulSet replaced a pod, and another exceeded its local storage": {
			change: func(e *Evidence, s *State) {
				replaceSetPods(e, s)
				podtest.Deleted(21)(&e.Workloads[0].Pods[1])
				e.Workloads[0].Pods[1].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
			},
			want: Restarting, reason: "Evicted", restarts: 1,
		},
		"a rollout replaced a pod": {
			change: func(e *Evidence, s *State) {
				e.Workloads[0].Workload = gang.Workload{StatefulSet: &appsv1.StatefulSet{
					Spec:   appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)},
					Status: appsv1.StatefulSetStatus{ReadyReplicas: 2, CurrentRevision: "a", UpdateRevision: "b"},
				}}
				s.StatefulSetPods = "2-0000000000000000"
			},
			want: Running,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, s := newRestartEvidence()
			if c.change != nil {
				c.change(&e, &s)
			}
			w := e.Workloads[0]
			e.Members = ObserveMembers(w.Gang, func(string) (Observation, bool) { return Observe(w.Workload), true })
			e.Members[0].DeterminesCompletion = c.determines
			observed := s.Observe(e, &Memory{})
			next := s.Next(policies, observed.Snapshot)
			if next.Phase != c.want || next.Restarts != c.restarts || next.Disruptions != c.evicted {
				t.Errorf("%s after %d restarts and %d disruptions (%v), want %s after %d and %d", next.Phase, next.Restarts,
					next.Disruptions, next.FirstFailure, c.want, c.restarts, c.evicted)
			}
			if f := next.FirstFailure; c.reason != "" && (f == nil || f.Reason != c.reason) {
				t.Errorf("the first failure is %v, want the reason %s", f, c.reason)
			}
			if isUntracked := observed.Workloads[0].PodsToUntrack != nil; isUntracked != c.wantUntracked {
				t.Errorf("a pod is to be untracked: %t, want %t", isUntracked, c.wantUntracked)
			}
		})
	}
}

// TestStatefulSetRankRunsAgain checks that a rank of a StatefulSet that succeeded stays complete when the kubelet runs
// its container again and that container fails: for the manager that observed the success, and for the next manager.
func TestStatefulSetRankRunsAgain(t *testing.T) {
	policies := gang.RestartRules{
		RestartPolicy: gang.RestartPolicyGang, MaxRestarts: 1, CleanPodPolicy: gang.CleanPodPolicyNone,
	}
	e, s := newRestartEvidence()
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)}}
	set.Status = appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2}
	w := &e.Workloads[0]
	w.Workload = gang.Workload{StatefulSet: set}
	for i := range w.Pods {
		podtest.OfStatefulSet(&w.Pods[i])
		w.Pods[i].UID = types.UID(w.Pods[i].Name)
	}
	e.Members = ObserveMembers(w.Gang, func(string) (Observation, bool) { return Observe(w.Workload), true })
	memory := &Memory{}
	pass := func() {
		t.Helper()
		s = s.Next(policies, s.Observe(e, memory).Snapshot)
	}
	podtest.Terminated(0, 20, true)(&w.Pods[1])
	pass()
	if s.Phase != Running || s.CompletedRanks != "1" {
		t.Fatalf("%s with the completed ranks %q after rank 1 succeeded, want Running with 1", s.Phase, s.CompletedRanks)
	}
	podtest.Terminated(1, 30, true)(&w.Pods[1])
	pass()
	memory = &Memory{}
	pass()
	if s.Phase != Running || s.Restarts != 0 {
		t.Fatalf("%s after %d restarts (%v) after rank 1 failed in its second run", s.Phase, s.Restarts, s.FirstFailure)
	}
	podtest.Terminated(0, 40, true)(&w.Pods[0])
	pass()
	if s.Phase != Succeeded {
		t.Errorf("%s (%v) after rank 0 succeeded too, want Succeeded", s.Phase, s.FirstFailure)
	}
	podtest.Terminated(1, 50, true)(&w.Pods[0])
	for range 2 {
		pass()
		memory = &Memory{}
	}
	if s.Phase != Succeeded {
		t.Errorf("%s (%v) after rank 0 failed in its second run, want Succeeded", s.Phase, s.FirstFailure)
	}
	w.Pods[0].UID, w.Pods[0].Status = "new", corev1.PodStatus{Phase: corev1.PodRunning}
	pass()
	if s.Phase.Terminal() {
		t.Errorf("%s after its user replaced a pod, want a new run", s.Phase)
	}
}

// TestLostNodeIsDecidedOnce checks that a node that returns does not take back the decision to restart, whether the
// decision was written or its write was rejected.
func TestLostNodeIsDecidedOnce(t *testing.T) {
	policies := gang.RestartRules{RestartPolicy: gang.RestartPolicyGang, MaxDisruptions: -1}
	e, s := newRestartEvidence()
	w := e.Workloads[0]
	e.Members = ObserveMembers(w.Gang, func(string) (Observation, bool) { return Observe(w.Workload), true })
	pass := func(s State, m *Memory) State {
		next := s.Next(policies, s.Observe(e, m).Snapshot)
		m.RecordDecision(s, next)
		return next
	}
	podtest.OnLostNode(20)(&e.Workloads[0].Pods[1])
	var memory Memory
	decided := pass(s, &memory)
	e.Workloads[0].Pods[1] = podtest.RankPod(1, nil) // the node returns
	for name, next := range map[string]State{
		"written": pass(decided, &memory), "rejected": pass(s, &memory),
	} {
		f := next.FirstFailure
		if next.Phase != Restarting || next.Disruptions != 1 || f == nil || f.Reason != failure.ReasonNodeLost {
			t.Errorf("%s: phase %s after %d disruptions: %v", name, next.Phase, next.Disruptions, f)
		}
	}
	if next := pass(s, &Memory{}); next.Phase != Running {
		t.Errorf("without a decision, the phase is %s", next.Phase)
	}
}

// TestFirstFailureDuringTermination checks that a rank is the first failure if it failed in the
// second in which its gang was terminated. Rank 0 reported a lost peer before.
func TestFirstFailureDuringTermination(t *testing.T) {
	at := podtest.At(60)
	pod := podtest.RankPod(1, podtest.Terminated(1, 60, false))
	pod.Labels[gang.LabelAttempt] = "0"
	pod.DeletionTimestamp = ptr.To(metav1.NewTime(at.Add(30 * time.Second)))
	pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
	pods := []corev1.Pod{pod}
	lost := &failure.Failure{Rank: 0, Container: "trainer", ExitCode: 1, LostPeer: true, Time: at}
	for name, c := range map[string]struct {
		state State
		want  int32
	}{
		"restarting gang": {
			state: State{
				Phase: Restarting, Restarts: 1, LastTransitionTime: at, LastRestartTime: at, FirstFailure: lost,
				Bookkeeping: Bookkeeping{Attempt: 1},
			},
			want: 1,
		},
		"failed gang":    {state: State{Phase: Failed, LastTransitionTime: at, FirstFailure: lost}, want: 1},
		"succeeded gang": {state: State{Phase: Succeeded, LastTransitionTime: at, FirstFailure: lost}},
	} {
		t.Run(name, func(t *testing.T) {
			w := WorkloadEvidence{Workload: gang.Workload{Job: &batchv1.Job{}}, Pods: pods}
			context := c.state.failureContext(w, Members{{Exists: true}})
			got := failure.EarlierOf(c.state.FirstFailure, failure.First(pods, 0, context))
			if got.Rank != c.want {
				t.Errorf("first failure: %+v", got)
			}
		})
	}
}

// TestStartOfResumedJob checks since when the pods of a Job can be of its current run.
func TestStartOfResumedJob(t *testing.T) {
	recorded := State{Bookkeeping: Bookkeeping{JobStartTime: podtest.At(10)}}
	for name, c := range map[string]struct {
		suspended bool
		start     *metav1.Time
		want      time.Time
	}{
		"the Job was started again":          {start: ptr.To(metav1.NewTime(podtest.At(20))), want: podtest.At(20)},
		"another Job was started last":       {start: ptr.To(metav1.NewTime(podtest.At(5))), want: podtest.At(5)},
		"the Job is resumed and not started": {want: podtest.At(10)},
		"the Job is suspended":               {suspended: true, want: podtest.At(10)},
	} {
		t.Run(name, func(t *testing.T) {
			w := WorkloadEvidence{Workload: gang.Workload{Job: &batchv1.Job{
				Spec: batchv1.JobSpec{Suspend: &c.suspended}, Status: batchv1.JobStatus{StartTime: c.start},
			}}}
			got := recorded.failureContext(w, Members{{Exists: true}})
			if !got.JobStartTime.Equal(c.want) {
				t.Errorf("started at %s", got.JobStartTime)
			}
		})
	}
}

// TestResumeTime checks since when the exits of containers count.
func TestResumeTime(t *testing.T) {
	startedAt := func(seconds int) MemberState {
		return MemberState{Exists: true, Observed: Observation{StartTime: podtest.At(seconds)}}
	}
	state := State{Bookkeeping: Bookkeeping{AttemptStartTime: podtest.At(60)}}
	for name, c := range map[string]struct {
		members Members
		want    time.Time
	}{
		"the Jobs were resumed before a manager ran": {members: Members{startedAt(40), startedAt(50)}, want: podtest.At(50)},
		"the Job was started after Rollcall resumed it": {
			members: Members{startedAt(62)}, want: podtest.At(60),
		},
		"a Job is not started": {members: Members{startedAt(40), {Exists: true}}, want: podtest.At(60)},
		"a StatefulSet may have been resumed later": {
			members: Members{startedAt(40), {Exists: true, Observed: Observation{IsStatefulSet: true}}}, want: podtest.At(60),
		},
		"all Jobs are gone": {want: podtest.At(60)},
	} {
		if got := state.resumeTime(c.members); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
