package controller

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// The metrics of gangs. No label has values that users choose, so the number of series is bounded.
var (
	restartsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_gang_restarts_total",
		Help: "Restarts of gangs after failures, by framework and reason " +
			"(container_exit, oom_killed, evicted, start_timeout, unobserved or other).",
	}, []string{"framework", "reason"})
	disruptionsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_gang_disruptions_total",
		Help: "Restarts of gangs after disruptions, by framework and reason (evicted, deleted, unobserved or other).",
	}, []string{"framework", "reason"})
	// The buckets range from 1 second, for a node that has the image, to 34 minutes, for nodes that are
	// created on demand and large images.
	durationBuckets = prometheus.ExponentialBuckets(1, 2, 12)
	// A vector has no series before the first measurement, so the webhook does not export it.
	clockOffset = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollcall_clock_offset_seconds",
		Help: "Time by which the clock of the API server is ahead of the clock of the controller.",
	}, nil)
	startupDuration = newHistogram("rollcall_gang_startup_duration_seconds",
		"Time from the creation or resumption of a gang until all ranks were ready.")
	recoveryDuration = newHistogram("rollcall_gang_recovery_duration_seconds",
		"Time from the decision to restart until all ranks were ready again.")

	gangsDesc = prometheus.NewDesc(
		"rollcall_gangs", "Gangs, by framework and phase.", []string{"framework", "phase"}, nil)
	oldestTransitionDesc = prometheus.NewDesc("rollcall_gang_oldest_transition_timestamp_seconds",
		"Time since which some gang is in the phase Pending, Starting or Restarting, by framework and phase, in seconds "+
			"since the Unix epoch.", []string{"framework", "phase"}, nil)
	// Administrators choose the names of rules. A policy has at most policy.MaxRules of them.
	violatingGangsDesc = prometheus.NewDesc("rollcall_policy_violating_gangs",
		"Unfinished gangs that violate a limit or rule of the policy, by rule and mode.", []string{"rule", "mode"}, nil)
)

func newHistogram(name, help string) *prometheus.HistogramVec {
	options := prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets}
	return prometheus.NewHistogramVec(options, []string{"framework"})
}

func init() {
	metrics.Registry.MustRegister(restartsTotal, disruptionsTotal, clockOffset, startupDuration, recoveryDuration)
}

// recordTransition updates the metrics when a gang enters a phase. It does nothing if the phase did not
// change.
func recordTransition(framework string, s, last lifecycle.Status) {
	if s.Phase == last.Phase {
		return
	}
	switch s.Phase {
	case lifecycle.Restarting: // neither count rises if the start of an attempt is repeated
		if s.Restarts > last.Restarts {
			restartsTotal.WithLabelValues(framework, restartReason(s.FirstFailure)).Inc()
		}
		if s.Disruptions > last.Disruptions {
			disruptionsTotal.WithLabelValues(framework, restartReason(s.FirstFailure)).Inc()
		}
	case lifecycle.Running:
		if s.StartCompleted {
			return // a rank became ready again within an attempt
		}
		isRestart := s.Restarts+s.Disruptions > 0
		if !isRestart && !s.AttemptStartTime.IsZero() {
			startupDuration.WithLabelValues(framework).Observe(s.LastTransitionTime.Sub(s.AttemptStartTime).Seconds())
		}
		if isRestart && !s.LastRestartTime.IsZero() {
			recoveryDuration.WithLabelValues(framework).Observe(s.LastTransitionTime.Sub(s.LastRestartTime).Seconds())
		}
	}
}

// restartReason returns the value of the label reason. Reasons of failures have no bound, because any
// controller may evict pods, so the label has a class of reasons.
func restartReason(f *failure.Failure) string {
	switch {
	case f == nil:
		return "other"
	case f.IsOOMKilled():
		return "oom_killed"
	case f.Container != "":
		return "container_exit"
	case f.IsEviction():
		return "evicted"
	}
	switch f.Reason {
	case failure.ReasonPodDeleted, failure.ReasonMemberRecreated:
		return "deleted"
	case failure.ReasonStartTimeout:
		return "start_timeout"
	case failure.ReasonRankLost, failure.ReasonUnobserved:
		return "unobserved"
	default:
		return "other"
	}
}

// gangCollector counts the gangs in the cache on each scrape, so that no counter has to follow them.
type gangCollector struct {
	reader client.Reader
	// isManagedNamespace reports whether the gangs of a namespace are counted.
	isManagedNamespace func(ctx context.Context, namespace string) (bool, error)
	// countViolations returns the number of gangs that violate each rule of the policy.
	countViolations func() map[violatedRule]int
}

// Describe implements [prometheus.Collector].
func (c gangCollector) Describe(out chan<- *prometheus.Desc) {
	out <- gangsDesc
	out <- oldestTransitionDesc
	out <- violatingGangsDesc
}

// gangGroup is the label values of the metrics that describe gangs.
type gangGroup struct{ framework, phase string }

// Collect counts each gang by the workload that contains its rank 0. It returns nothing if the cache
// cannot be read, as before its first synchronization.
func (c gangCollector) Collect(out chan<- prometheus.Metric) {
	for rule, n := range c.countViolations() {
		out <- prometheus.MustNewConstMetric(
			violatingGangsDesc, prometheus.GaugeValue, float64(n), rule.name, string(rule.mode))
	}
	count, oldest := c.countGangs()
	for k, n := range count {
		out <- prometheus.MustNewConstMetric(gangsDesc, prometheus.GaugeValue, float64(n), k.framework, k.phase)
	}
	for k, since := range oldest {
		out <- prometheus.MustNewConstMetric(
			oldestTransitionDesc, prometheus.GaugeValue, float64(since.Unix()), k.framework, k.phase)
	}
}

// countGangs returns the number of gangs, and since when the oldest of them waits in its phase. Both are
// empty if the cache cannot be read.
func (c gangCollector) countGangs() (count map[gangGroup]int, oldest map[gangGroup]time.Time) {
	// The interface of Prometheus has no context.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) //nolint:forbidigo // see above
	defer cancel()
	count, oldest = map[gangGroup]int{}, map[gangGroup]time.Time{}
	managed := map[string]bool{}
	isManaged := func(namespace string) bool {
		if _, known := managed[namespace]; !known {
			managed[namespace], _ = c.isManagedNamespace(ctx, namespace)
		}
		return managed[namespace]
	}
	add := func(w gang.Workload) {
		phase, labels := lifecycle.ReadPhase(w), w.Template().Labels
		framework, hasRank0 := labels[gang.LabelFramework], labels[gang.LabelRankOffset] == ""
		if phase == "" || framework == "" || !hasRank0 || !isManaged(w.Meta().Namespace) {
			return
		}
		k := gangGroup{framework, string(phase)}
		count[k]++
		if since := readWaitTime(w, phase); !since.IsZero() && (oldest[k].IsZero() || since.Before(oldest[k])) {
			oldest[k] = since
		}
	}
	var jobs batchv1.JobList
	var sets appsv1.StatefulSetList
	for _, list := range []client.ObjectList{&jobs, &sets} {
		if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			log.Log.V(1).Info("Failed to count gangs", "error", err.Error())
			return nil, nil
		}
	}
	for i := range jobs.Items {
		add(gang.Workload{Job: &jobs.Items[i]})
	}
	for i := range sets.Items {
		add(gang.Workload{StatefulSet: &sets.Items[i]})
	}
	return count, oldest
}

// readWaitTime returns the time at which a gang entered a phase that is short unless a problem exists. It
// returns the zero time for other phases, and for a workload that the controller does not manage. A new gang
// is Pending by admission, and has no status until its phase changes.
func readWaitTime(w gang.Workload, phase lifecycle.Phase) time.Time {
	switch phase {
	case lifecycle.Pending, lifecycle.Starting, lifecycle.Restarting:
	default:
		return time.Time{}
	}
	if w.IsManagedExternally() {
		return time.Time{}
	}
	if since := lifecycle.ReadStatus(w).LastTransitionTime; !since.IsZero() {
		return since
	}
	return w.Meta().CreationTimestamp.Time
}
