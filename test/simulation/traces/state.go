package traces

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// status is a description of the status of a workload: the numbers of pods that change while pods change, and
// everything else.
type status struct{ numbers, rest string }

// gone describes a deleted workload.
var gone = status{rest: "gone"}

func (s status) String() string { return strings.TrimSpace("status: " + s.numbers + s.rest) }

// describeStatus describes what Rollcall reads of the status of a workload.
func describeStatus(o client.Object) status {
	var numbers, rest text
	rest.addIf(o.GetDeletionTimestamp() != nil, "deleting")
	switch o := o.(type) {
	case *batchv1.Job:
		s := o.Status
		numbers.addNumber("active", s.Active)
		numbers.addNumber("ready", ptr.Deref(s.Ready, 0))
		numbers.addNumber("terminating", ptr.Deref(s.Terminating, 0))
		rest.addIf(s.StartTime != nil, "started")
		rest.addNumber("succeeded", s.Succeeded)
		rest.addNumber("failed", s.Failed)
		rest.addIf(s.CompletedIndexes != "", "completedIndexes="+s.CompletedIndexes)
		rest.addIf(ptr.Deref(s.FailedIndexes, "") != "", "failedIndexes="+ptr.Deref(s.FailedIndexes, ""))
		if u := s.UncountedTerminatedPods; u != nil {
			rest.addNumber("uncountedSucceeded", int32(len(u.Succeeded)))
			rest.addNumber("uncountedFailed", int32(len(u.Failed)))
		}
		for _, c := range s.Conditions {
			rest.addIf(true, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
		}
	case *appsv1.StatefulSet:
		s := o.Status
		numbers.addNumber("replicas", s.Replicas)
		numbers.addNumber("ready", s.ReadyReplicas)
		numbers.addNumber("updated", s.UpdatedReplicas)
		rest.addIf(s.ObservedGeneration < o.Generation, "stale")
		rest.addIf(s.CurrentRevision != s.UpdateRevision, "rolling")
	}
	return status{numbers: string(numbers), rest: string(rest)}
}

// describePod describes what Rollcall and the controllers read of a pod.
func describePod(pod *corev1.Pod) string {
	out := text(pod.Status.Phase + " ")
	for _, c := range pod.Status.Conditions {
		out.addIf(c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue, "ready")
		out.addIf(c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue, c.Reason)
	}
	out.addIf(slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer), "tracked")
	if pod.DeletionTimestamp != nil {
		out.addIf(true, fmt.Sprintf("deleting(%ds)", ptr.Deref(pod.DeletionGracePeriodSeconds, 0)))
	}
	if attempt, ok := gang.PodAttempt(pod); ok {
		out.addIf(true, fmt.Sprintf("attempt=%d", attempt))
	}
	return strings.TrimSpace(string(out))
}

// text is a list of words.
type text string

func (t *text) addIf(condition bool, word string) {
	if condition {
		*t += text(word + " ")
	}
}

func (t *text) addNumber(name string, n int32) { t.addIf(n != 0, fmt.Sprintf("%s=%d", name, n)) }

// describeChanges describes the changes of a step as doc.go says.
func (r *run) describeChanges() []string {
	var out []string
	pods := map[string][]string{}
	statuses := r.keepStatuses()
	held := "" // a status that only changes numbers
	flush := func() {
		isGone := len(out) > 0 && out[len(out)-1] == gone.String()
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			if isGone {
				pods[name] = pods[name][len(pods[name])-1:]
			}
			out = append(out, fmt.Sprintf("pod %s: %s", name, strings.Join(pods[name], ", then ")))
		}
		clear(pods)
		if held != "" {
			out, held = append(out, held), ""
		}
	}
	for i, c := range r.pending {
		if kept, ok := statuses[i]; ok && kept.changesNumbers {
			held = kept.String()
			continue
		} else if ok {
			flush()
			out = append(out, kept.String())
			continue
		}
		before, wasPod := c.Before.(*corev1.Pod)
		after, remains := c.After.(*corev1.Pod)
		switch {
		case wasPod && !remains:
			pods[r.names[before.UID]] = append(pods[r.names[before.UID]], "gone")
		case remains && (!wasPod || describePod(before) != describePod(after)):
			pods[r.names[after.UID]] = append(pods[r.names[after.UID]], describePod(after))
		}
	}
	flush()
	return out
}

// keptStatus is a change of the status. changesNumbers is true if it changes only numbers of pods.
type keptStatus struct {
	status
	changesNumbers bool
}

// keepStatuses returns the changes of the status by their position, without those that only timing causes.
func (r *run) keepStatuses() map[int]keptStatus {
	statuses, positions := r.statuses()
	out := map[int]keptStatus{}
	for i := 1; i < len(statuses); i++ {
		changesNumbers := statuses[i].rest == statuses[i-1].rest
		if changesNumbers && i+1 < len(statuses) && statuses[i].rest == statuses[i+1].rest {
			continue
		}
		out[positions[i]] = keptStatus{status: statuses[i], changesNumbers: changesNumbers}
	}
	return out
}

// statuses returns the status before the step and its changes, with their positions.
func (r *run) statuses() (statuses []status, positions []int) {
	statuses, positions = []status{r.status}, []int{-1}
	for i, c := range r.pending {
		if isPod(c.Before) || isPod(c.After) {
			continue
		}
		next := gone
		if c.After != nil {
			next = describeStatus(c.After)
		}
		if next != statuses[len(statuses)-1] {
			statuses, positions = append(statuses, next), append(positions, i)
		}
	}
	return statuses, positions
}

func (r *run) lastStatus() status {
	statuses, _ := r.statuses()
	return statuses[len(statuses)-1]
}

func isPod(o client.Object) bool {
	_, ok := o.(*corev1.Pod)
	return ok
}
