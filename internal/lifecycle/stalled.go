package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"rollcall.training/gang"
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

// RankLog is what the log of rank 0 of a gang in the phase Running shows, in the current run of its container. The zero
// value shows nothing.
type RankLog struct {
	// Matches is the number of lines that matched the pattern.
	Matches int
	// Silence is how long no line matched, until the log was last read.
	Silence time.Duration
	// Stopped is true if the program says that it prints no such lines for now, and Faulted if it says that it cannot go
	// on.
	Stopped, Faulted bool
	// Rules are those of the workload of rank 0.
	Rules gang.StallRules
}

// minMatches is the number of lines that must match before a gang restarts: two of them show that the program prints
// such lines again and again.
const minMatches = 2

// addSilence adds that rank 0 printed no line that matches its pattern for the stall timeout, or a line of a fault.
func (o *Observed) addSilence(log RankLog) {
	text, isCertain := "", log.Matches >= minMatches
	switch {
	case log.Faulted:
		text, isCertain = " 0 printed a line that matches the group fault of the progress pattern", true
	case log.Matches == 0 || log.Stopped || log.Silence < log.Rules.Timeout:
		return
	default:
		text = " 0 printed no line that matches the progress pattern for " + duration.HumanDuration(log.Rules.Timeout)
	}
	o.Stall.Silence = "Rank" + text
	if log.Rules.Action == gang.StallRestart && isCertain {
		o.Silence = "rank" + text
	}
}

// findStalledSince returns since when the readiness probe of Rollcall fails in one of the named containers of a pod;
// zero if it does not. While a container starts, it is not ready either, but since before its start.
func findStalledSince(pod *corev1.Pod, probedContainers []string) time.Time {
	isStalled := func(since time.Time) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			runs := c.State.Running != nil && since.After(c.State.Running.StartedAt.Time)
			return runs && !c.Ready && slices.Contains(probedContainers, c.Name)
		})
	}
	for _, c := range pod.Status.Conditions {
		isNotReady := c.Type == corev1.ContainersReady && c.Status == corev1.ConditionFalse
		if since := c.LastTransitionTime.Time; isNotReady && pod.DeletionTimestamp == nil && isStalled(since) {
			return since
		}
	}
	return time.Time{}
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
