package lifecycle

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/progress"
)

// Stall describes ranks that make no progress. The zero value describes none.
type Stall struct {
	Ranks []int32
	// ReportTime is when all ranks that wait for each other are known.
	ReportTime time.Time
	// Rules are those of the workload of a stalled rank.
	Rules gang.StallRules
	// Silence describes that the log of rank 0 shows no progress for the stall timeout, or a fault; empty if it does not.
	Silence string
}

// RankLogSource is the log of rank 0 of a gang, with the rules of its workload.
type RankLogSource struct {
	Namespace, Pod, Container string
	// Run identifies the run of the container, and the pattern.
	Run   string
	Rules gang.StallRules
}

// FindRankLog returns the log of rank 0 of a gang in the phase Running; nil if the gang has no pattern, or if rank 0
// does not run or has completed, so that its kubelet runs it again.
func (s State) FindRankLog(workloads []WorkloadEvidence, m *Memory) *RankLogSource {
	// Only the workload of rank 0 has a pattern.
	i := slices.IndexFunc(workloads, func(w WorkloadEvidence) bool {
		return w.Gang.StallRules.Pattern != nil && len(w.Gang.Containers) > 0
	})
	if i < 0 || s.Phase != Running || m.completed.known(s).Has(0) {
		return nil
	}
	w := workloads[i]
	pod, container, rules := NewestPods(w.Pods, 1)[0], w.Gang.Containers[0].Name, w.Gang.StallRules
	if pod == nil || !IsContainerRunning(pod, container) {
		return nil
	}
	restarts := int32(0)
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container {
			restarts = c.RestartCount
		}
	}
	return &RankLogSource{
		Namespace: pod.Namespace, Pod: pod.Name, Container: container,
		Run: fmt.Sprintf("%s/%s/%d/%s", pod.UID, container, restarts, rules.Pattern), Rules: rules,
	}
}

// IsContainerRunning reports whether a container of a pod that is not being deleted runs. A pod of the cache has no
// container statuses if all containers run and none has exited.
func IsContainerRunning(pod *corev1.Pod, name string) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == name && c.State.Running == nil
		})
}

// RankLog is what the log of rank 0 of a gang showed in one run of its container, with one pattern. The zero value
// shows nothing.
type RankLog struct {
	Source RankLogSource
	// Matches is the number of lines that matched the pattern, and LastLine the time of the last one by the clock of the
	// node.
	Matches  int
	LastLine time.Time
	// Stopped is true after a line with the group stop, until another line matches. Faulted is true after a line with
	// the group fault.
	Stopped, Faulted bool
	// ReadTime is the start of the last read that succeeded, and MatchTime that of the last read that found a line that
	// was not read before. So the clock of the node does not matter.
	ReadTime, MatchTime time.Time
}

// Add adds a part of the log that was read from a time on. Lines that were not read may match, so a part that is
// truncated shows progress.
func (l *RankLog) Add(p progress.Progress, readTime time.Time, isTruncated bool) {
	l.ReadTime = readTime
	l.Faulted = l.Faulted || p.Faulted
	l.Stopped = p.Stopped || l.Stopped && p.Matches == 0
	if p.Matches > 0 {
		l.Matches, l.LastLine = l.Matches+p.Matches, p.LastTime
	}
	if p.Matches > 0 || isTruncated {
		l.MatchTime = readTime
	}
}

// minMatches is the number of lines that must match before a gang restarts: two of them show that the program prints
// such lines again and again.
const minMatches = 2

// addSilence adds that rank 0 printed no line that matches its pattern for the stall timeout, or a line of a fault.
func (o *Observed) addSilence(log RankLog) {
	text, isCertain, rules := "", log.Matches >= minMatches, log.Source.Rules
	switch {
	case log.Faulted:
		text, isCertain = " 0 printed a line that matches the group fault of the progress pattern", true
	case log.Matches == 0 || log.Stopped || log.ReadTime.Sub(log.MatchTime) < rules.Timeout:
		return
	default:
		text = " 0 printed no line that matches the progress pattern for " + duration.HumanDuration(rules.Timeout)
	}
	o.Stall.Silence = "Rank" + text
	if rules.Action == gang.StallRestart && isCertain {
		o.Silence = "rank" + text
	}
}

// findStalledSince returns since when the readiness probe of Rollcall fails in one of the named containers of a pod;
// zero if it does not. While a container starts, it is not ready either, but since before its start.
func findStalledSince(pod *corev1.Pod, probedContainers []string) time.Time {
	since := failure.FindCondition(pod, corev1.ContainersReady, corev1.ConditionFalse).LastTransitionTime.Time
	isStalled := func(c corev1.ContainerStatus) bool {
		runs := c.State.Running != nil && since.After(c.State.Running.StartedAt.Time)
		return runs && !c.Ready && slices.Contains(probedContainers, c.Name)
	}
	if pod.DeletionTimestamp != nil || !slices.ContainsFunc(pod.Status.ContainerStatuses, isStalled) {
		return time.Time{}
	}
	return since
}

// addStalledRanks adds the ranks whose readiness probe reports that they make no progress. All ranks of a gang are
// probed within one period, so a stall is complete one period after the first rank.
func (o *Observed) addStalledRanks(e Evidence, w WorkloadEvidence) {
	rules := w.Gang.StallRules
	if len(w.ProbedContainers) == 0 {
		return
	}
	for i := range w.Pods {
		since := findStalledSince(&w.Pods[i], w.ProbedContainers)
		if since.IsZero() {
			continue
		}
		o.Stall.Ranks = append(o.Stall.Ranks, w.Gang.RankOffset+gang.PodIndex(&w.Pods[i]))
		due := since.Add(rules.ProbePeriod() + stallReportDelay)
		o.Stall.ReportTime, o.Stall.Rules = earliestTime(o.Stall.ReportTime, due), rules
	}
	if o.Stall.ReportTime.After(e.Now) {
		o.NextCheckTime = earliestTime(o.NextCheckTime, o.Stall.ReportTime)
	}
}

// stallReportDelay is how long a kubelet may take to report a failed probe.
const stallReportDelay = 2 * time.Second
