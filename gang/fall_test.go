package gang_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// podsBegan is when the pods of these tests were made.
var podsBegan = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func second(n int) time.Time { return podsBegan.Add(time.Duration(n) * time.Second) }

// rankPod is a pod of a Job that runs well; change alters it.
func rankPod(index int, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("train-%d-x", index), CreationTimestamp: metav1.NewTime(podsBegan),
			Labels: map[string]string{"batch.kubernetes.io/job-completion-index": fmt.Sprint(index), gang.LabelAttempt: "1"}},
		Spec: corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
	if change != nil {
		change(&p)
	}
	return p
}

// ended lets the container end; with again it runs anew within the pod.
func ended(code int32, seconds int, again bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		t := &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: "last words\n", FinishedAt: metav1.NewTime(second(seconds))}
		c := &p.Status.ContainerStatuses[0]
		if again {
			c.LastTerminationState.Terminated, c.RestartCount = t, 1
			return
		}
		c.State = corev1.ContainerState{Terminated: t}
		if code == 0 {
			p.Status.Phase = corev1.PodSucceeded
		}
	}
}

func deleted(seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(second(seconds+30))), ptr.To[int64](30)
	}
}

// helper adds a container beside the training, which ends with a code, or runs if that
// is negative.
func helper(code int32, seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.ContainerStatus{Name: "logs", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		if code >= 0 {
			c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(second(seconds))}}
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, c)
	}
}

// ofSet makes it a pod of a StatefulSet.
func ofSet(p *corev1.Pod) {
	p.Labels = map[string]string{"apps.kubernetes.io/pod-index": fmt.Sprint(gang.IndexOf(p))}
}

// taken lets the kubelet take the pod away.
func taken(seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory"
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "TerminationByKubelet", LastTransitionTime: metav1.NewTime(second(seconds))})
	}
}

func taken1(seconds int) *gang.Fall {
	return &gang.Fall{Rank: 1, Pod: "train-0-x", Node: "node-a", Reason: "TerminationByKubelet", Message: "The node was low on memory", At: second(seconds)}
}

func memory(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled" }

// unknown is what a kubelet says of a container that it lost.
func unknown(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt = metav1.Time{}
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(second(20))
}

func drained(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
}

// TestFallBeforeStop: a gang is stopped within the second in which its ranks fall, and times
// are kept to the second.
func TestFallBeforeStop(t *testing.T) {
	stopped := gang.Watch{Attempt: 1, Stopping: true, Told: second(20)}
	held := gang.Watch{Attempt: 1, Stopping: true}
	gone := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(second(23))), ptr.To[int64](0)
	}
	at := func(seconds int, change ...func(*gang.Fall)) *gang.Fall {
		f := &gang.Fall{Rank: 0, Pod: "train-0-x", Node: "node-a", Container: "trainer", ExitCode: 1, Reason: "Error", Message: "last words", At: second(seconds)}
		for _, c := range change {
			c(f)
		}
		return f
	}
	told := func(f *gang.Fall) { f.Told = true }
	killed := func(f *gang.Fall) { f.Reason = "OOMKilled" }
	deletion := &gang.Fall{Rank: 0, Pod: "train-0-x", Node: "node-a", Reason: gang.FallDeleted, At: second(20)}
	for name, c := range map[string]struct {
		reason  string
		changes []func(*corev1.Pod)
		watch   gang.Watch
		want    *gang.Fall
	}{
		"started again":               {"which no kubelet does with a pod that is to go", []func(*corev1.Pod){ended(1, 20, true), deleted(20)}, stopped, at(20)},
		"started again, nobody falls": {"a Job with a successPolicy takes its pods away, and their kubelet may hear of it late", []func(*corev1.Pod){ended(1, 20, true), deleted(20)}, held, nil},
		"started again, and stopped":  {"what it ended with first counts", []func(*corev1.Pod){ended(1, 20, true), ended(137, 22, false), deleted(20)}, stopped, at(20)},
		"ended":                       {"before it was told to, or since", []func(*corev1.Pod){ended(1, 20, false), deleted(20)}, stopped, at(20, told)},
		"ended, nobody falls":         {"the gang is held back for another reason", []func(*corev1.Pod){ended(1, 20, false), deleted(20)}, held, nil},
		"ended, not deleted yet":      {"a peer that was told may be what it lost", []func(*corev1.Pod){ended(1, 20, false)}, stopped, at(20, told)},
		"ended after":                 {"it was told to", []func(*corev1.Pod){ended(1, 21, false), deleted(20)}, stopped, nil},
		"ended after, its end confirmed": {"the kubelet's last word moves the time of the deletion", []func(*corev1.Pod){ended(1, 21, false), gone}, stopped,
			at(21, told)},
		"ended before, its end confirmed":        {"as far as one can tell", []func(*corev1.Pod){ended(1, 19, false), gone}, stopped, at(19, told)},
		"started again, after":                   {"it lost one that was told", []func(*corev1.Pod){ended(1, 21, true)}, stopped, at(21, told)},
		"ended before its own end was asked for": {"but after another's was", []func(*corev1.Pod){ended(1, 21, false), deleted(23)}, stopped, at(21, told)},
		"ended long before, its end confirmed":   {"", []func(*corev1.Pod){ended(1, 18, false), gone}, stopped, at(18)},
		"started again before, nobody falls":     {"", []func(*corev1.Pod){ended(1, 19, true), deleted(20)}, held, at(19)},
		"ended before":                           {"and not since", []func(*corev1.Pod){ended(1, 19, false), deleted(20)}, stopped, at(19)},
		"ended, by another clock":                {"that of the manager is ahead", []func(*corev1.Pod){ended(1, 20, false), deleted(20)}, gang.Watch{Attempt: 1, Stopping: true, Told: second(22)}, at(20, told)},
		"told by another, before": {"a signal ended it, and nobody of ours sent that", []func(*corev1.Pod){ended(143, 18, false), deleted(20)}, stopped,
			at(18, func(f *gang.Fall) { f.ExitCode = 143 })},
		"interrupted":                              {"an image may have another signal", []func(*corev1.Pod){ended(130, 20, false), deleted(20)}, stopped, nil},
		"ended before, not deleted yet":            {"", []func(*corev1.Pod){ended(1, 19, false)}, stopped, at(19)},
		"memory, before its own end was asked for": {"the others' end is no cause of that", []func(*corev1.Pod){ended(1, 20, false), memory, deleted(22)}, gang.Watch{Attempt: 1, Stopping: true, Told: second(18)}, at(20, killed)},
		"memory, nobody falls":                     {"it may have taken its gang along", []func(*corev1.Pod){ended(1, 20, false), memory, gone}, held, at(20, killed)},
		"node shut down": {"it was told by that", []func(*corev1.Pod){ended(143, 21, false), deleted(20), drained, func(p *corev1.Pod) {
			p.Status.Conditions[len(p.Status.Conditions)-1].LastTransitionTime = metav1.NewTime(second(19))
		}}, stopped, &gang.Fall{Rank: 0, Pod: "train-0-x", Node: "node-a", Reason: "EvictionByEvictionAPI", At: second(19)}},
		"drained": {"the control plane's word is not Rollcall's", []func(*corev1.Pod){ended(1, 20, false), deleted(20), drained}, stopped,
			&gang.Fall{Rank: 0, Pod: "train-0-x", Node: "node-a", Reason: "EvictionByEvictionAPI", At: second(20)}},
		"another, before": {"which was not started again", []func(*corev1.Pod){ended(1, 21, true), helper(1, 20)}, stopped,
			&gang.Fall{Rank: 0, Pod: "train-0-x", Node: "node-a", Container: "logs", ExitCode: 1, Reason: "Error", Told: true, At: second(20)}},
		"before the training": {"it talks to no rank", []func(*corev1.Pod){func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.NewTime(second(20)), Message: "gloo/transport/"}}}}
		}}, gang.Watch{Attempt: 1}, &gang.Fall{Rank: 0, Pod: "train-0-x", Node: "node-a", Container: "fetch", Helper: true, ExitCode: 1, Reason: "Error", Message: "gloo/transport/", At: second(20)}},
		"told to":                  {"and ended by that signal", []func(*corev1.Pod){ended(143, 20, false), deleted(20)}, stopped, nil},
		"memory, confirmed":        {"while it saved its work", []func(*corev1.Pod){ended(1, 21, false), memory, gone}, stopped, nil},
		"lost, and deleted":        {"the kubelet does not know how it ended", []func(*corev1.Pod){ended(137, 20, true), unknown, deleted(20)}, stopped, nil},
		"lost":                     {"it says when it noticed", []func(*corev1.Pod){ended(1, 30, true), unknown}, stopped, at(20)},
		"memory":                   {"no deletion leads to that", []func(*corev1.Pod){ended(1, 20, false), memory, deleted(20)}, stopped, at(20, killed)},
		"deleted by another":       {"its end follows from that", []func(*corev1.Pod){ended(1, 20, false), deleted(20)}, gang.Watch{Attempt: 1}, deletion},
		"deleted by another, anew": {"it had been started again", []func(*corev1.Pod){ended(1, 20, true), deleted(20)}, gang.Watch{Attempt: 1}, at(20)},
	} {
		t.Run(name, func(t *testing.T) {
			pod := rankPod(0, func(p *corev1.Pod) {
				for _, change := range c.changes {
					change(p)
				}
			})
			if diff := cmp.Diff(c.want, gang.FirstFall([]corev1.Pod{pod}, 0, c.watch)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestFirstFall(t *testing.T) {
	running := gang.Watch{Attempt: 1, Fell: second(-10)}
	training, stopping := running, running
	training.Trains, stopping.Stopping = []string{"trainer"}, true
	fell := func(rank int32, code int32, reason string, seconds int) *gang.Fall {
		f := &gang.Fall{Rank: rank, Pod: fmt.Sprintf("train-%d-x", rank-1), Node: "node-a", Reason: reason, At: second(seconds)}
		if code != 0 {
			f.Container, f.ExitCode, f.Message = "trainer", code, "last words"
		}
		return f
	}
	both := func(f ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, g := range f {
				g(p)
			}
		}
	}
	for name, c := range map[string]struct {
		reason string
		pods   []corev1.Pod
		watch  gang.Watch
		want   *gang.Fall
	}{
		"well":                     {"nothing befell them", []corev1.Pod{rankPod(0, nil), rankPod(1, nil)}, running, nil},
		"done":                     {"a rank may end before the others", []corev1.Pod{rankPod(0, ended(0, 20, false)), rankPod(1, nil)}, running, nil},
		"done and deleted":         {"a pod that is done may be taken away", []corev1.Pod{rankPod(0, both(ended(0, 20, false), deleted(25)))}, running, nil},
		"ended":                    {"", []corev1.Pod{rankPod(0, nil), rankPod(1, ended(3, 20, false))}, running, fell(2, 3, "Error", 20)},
		"restarted in pod":         {"the rank lost its peers, though its pod never failed", []corev1.Pod{rankPod(1, ended(3, 20, true))}, running, fell(2, 3, "Error", 20)},
		"first of several":         {"the others fell because of it", []corev1.Pod{rankPod(0, ended(1, 22, true)), rankPod(1, ended(9, 20, true)), rankPod(2, ended(1, 21, true))}, running, fell(2, 9, "Error", 20)},
		"killed among others":      {"a signal ended it, and its peers' errors of the same second follow from that", []corev1.Pod{rankPod(0, ended(1, 20, true)), rankPod(1, ended(139, 20, true)), rankPod(2, ended(1, 20, true))}, running, fell(2, 139, "Error", 20)},
		"told to end among others": {"that is no end by itself", []corev1.Pod{rankPod(0, ended(1, 20, true)), rankPod(1, ended(143, 20, true))}, running, fell(1, 1, "Error", 20)},
		"deleted":                  {"the time is that of the request, not that of the end of the grace period", []corev1.Pod{rankPod(0, deleted(20))}, running, fell(1, 0, "Deleted", 20)},
		"deleted, then out":        {"the pod was told to end, which its exit code hides", []corev1.Pod{rankPod(0, both(deleted(20), ended(143, 21, false)))}, running, fell(1, 0, "Deleted", 20)},
		"out, then deleted":        {"it had ended by itself", []corev1.Pod{rankPod(0, both(ended(3, 19, false), deleted(20)))}, running, fell(1, 3, "Error", 19)},
		"earlier attempt": {"it is on its way out", []corev1.Pod{rankPod(0, both(ended(3, 5, false), func(p *corev1.Pod) {
			p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(second(-60))
		}))}, running, nil},
		"earlier attempt, its end confirmed": {"a kubelet confirms the end of a pod when the next attempt has begun, and the API server takes that for the time of its deletion",
			[]corev1.Pod{rankPod(0, both(ended(3, 5, true), ended(137, 8, false), func(p *corev1.Pod) {
				p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(second(-60))
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(second(12))), ptr.To[int64](0)
			}))}, gang.Watch{Attempt: 1, Fell: second(6), Begun: second(10)}, nil},
		"earlier attempt, deleted again": {"by force, from a node that does not answer", []corev1.Pod{rankPod(0, both(deleted(20), func(p *corev1.Pod) {
			p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(second(-60))
		}))}, running, nil},
		"resumed by another": {"Kueue lets a Job go as it was, label included",
			[]corev1.Pod{rankPod(1, both(ended(3, 20, false), func(p *corev1.Pod) { p.Labels[gang.LabelAttempt] = "0" }))}, running, fell(2, 3, "Error", 20)},
		"of a StatefulSet": {"its pods bear no attempt", []corev1.Pod{rankPod(1, both(ended(3, 20, true), func(p *corev1.Pod) { delete(p.Labels, gang.LabelAttempt) }))},
			running, fell(2, 3, "Error", 20)},
		"evicted": {"the kubelet's word", []corev1.Pod{rankPod(0, func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(second(20))}}}
		})}, running, fell(1, 0, "Evicted", 20)},
		"drained": {"the control plane's word", []corev1.Pod{rankPod(0, both(deleted(20), func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
		}))}, running, fell(1, 0, "EvictionByEvictionAPI", 20)},
		"evicted, and out of it": {"the kubelet ends the containers when it takes the pod away",
			[]corev1.Pod{rankPod(0, both(ended(137, 21, false), taken(20)))}, running, taken1(21)},
		"out, then evicted": {"the rank had fallen before", []corev1.Pod{rankPod(0, both(ended(3, 19, true), taken(20)))}, running, fell(1, 3, "Error", 19)},
		"a helper ends":     {"what is beside the training is no rank", []corev1.Pod{rankPod(0, helper(1, 20))}, training, nil},
		"a helper ends, and fails the pod": {"the Job starts that rank alone", []corev1.Pod{rankPod(0, both(ended(0, 20, false), helper(1, 21), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))},
			training, &gang.Fall{Rank: 1, Pod: "train-0-x", Node: "node-a", Container: "logs", Helper: true, ExitCode: 1, Reason: "Error", At: second(21)}},
		"a helper first": {"the rank's own end counts", []corev1.Pod{rankPod(0, both(helper(1, 10), ended(3, 20, true)))}, training, fell(1, 3, "Error", 20)},
		"a native sidecar ends": {"it is started again, and is no rank", []corev1.Pod{rankPod(0, func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", RestartCount: 1,
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.NewTime(second(20))}}}}
		})}, training, nil},
		"an init container fails": {"the pod never got to its training", []corev1.Pod{rankPod(0, func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{{Name: "fetch",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, FinishedAt: metav1.NewTime(second(20))}}}}}
		})}, training, &gang.Fall{Rank: 1, Pod: "train-0-x", Node: "node-a", Container: "fetch", Helper: true, ExitCode: 2, Reason: "Error", At: second(20)}},
		"done, its helper is not, and deleted": {"a Job starts the pod again, and it alone", []corev1.Pod{rankPod(0, both(ended(0, 20, true), helper(-1, 0), deleted(25)))},
			training, fell(1, 0, "Deleted", 25)},
		"done in a set, its helper is not, and deleted": {"its rank is done", []corev1.Pod{rankPod(0, both(ended(0, 20, true), helper(-1, 0), deleted(25), ofSet))}, training, nil},
		"stopped":                         {"the gang restarts", []corev1.Pod{rankPod(0, deleted(20)), rankPod(1, both(deleted(20), ended(143, 21, false)))}, stopping, nil},
		"out, then stopped":               {"it had fallen by itself", []corev1.Pod{rankPod(0, deleted(20)), rankPod(1, both(deleted(20), ended(3, 19, false)))}, stopping, fell(2, 3, "Error", 19)},
		"out of memory as it was stopped": {"that has another cause than a signal", []corev1.Pod{rankPod(1, both(ended(137, 20, false), deleted(20), memory))}, stopping, fell(2, 137, "OOMKilled", 20)},
		"drained as it was stopped": {"the control plane's word is not Rollcall's", []corev1.Pod{rankPod(0, deleted(20)), rankPod(1, both(deleted(20), drained))}, stopping,
			fell(2, 0, "EvictionByEvictionAPI", 20)},
	} {
		t.Run(name, func(t *testing.T) {
			// The first rank of this member is 1.
			if diff := cmp.Diff(c.want, gang.FirstFall(c.pods, 1, c.watch)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestFallMessage(t *testing.T) {
	long := strings.Repeat("x", 5000) + "\n" + strings.Repeat("é", 200)
	p := rankPod(0, ended(1, 20, false))
	p.Status.ContainerStatuses[0].State.Terminated.Message = long
	f := gang.FirstFall([]corev1.Pod{p}, 0, gang.Watch{})
	if want := "… " + strings.Repeat("é", 200); f.Message != want {
		t.Errorf("the message is %q, want the last whole line", f.Message)
	}
	if want := "rank 0 (pod train-0-x on node node-a): Error, container trainer ended with exit code 1: … é"; !strings.HasPrefix(f.String(), want) {
		t.Errorf("%q does not begin with %q", f.String(), want)
	}
}

func TestLacking(t *testing.T) {
	pending := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message}}}
		}
	}
	image := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}}
	}
	pods := []corev1.Pod{rankPod(0, nil), rankPod(1, pending("Unschedulable", "0/3 nodes are available")), rankPod(2, image)}
	got := gang.Lacking(pods, gang.Member{Size: 6}, 1, nil)
	want := []string{"rank 2: Unschedulable: 0/3 nodes are available", "rank 3: container trainer: ImagePullBackOff: no such image", "rank 4: has no pod", "and 2 more"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
