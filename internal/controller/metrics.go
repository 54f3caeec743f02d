package controller

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// The metrics of gangs. Users choose no value of a label except for their namespaces, of which namespaceLabels
// limits the number. So the number of series is bounded.
var (
	restartsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_gang_restarts_total",
		Help: "Restarts of gangs after failures, by namespace, framework and reason " +
			"(container_exit, oom_killed, stalled, evicted, start_timeout or other).",
	}, []string{"namespace", "framework", "reason"})
	disruptionsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_gang_disruptions_total",
		Help: "Restarts of gangs after disruptions, by namespace, framework and reason " +
			"(evicted, deleted, node_lost, device_unhealthy, preflight_failed, schedule_timeout, unobserved or other).",
	}, []string{"namespace", "framework", "reason"})
	finishedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_gangs_finished_total",
		Help: "Gangs that finished, by namespace, framework and result (Succeeded or Failed).",
	}, []string{"namespace", "framework", "result"})
	secondsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_gang_seconds_total",
		Help: "Time of gangs, counted at the end of each phase, by namespace and activity (starting, suspended, " +
			"restarting), and at the end of each attempt (ran, ran_before_failure, ran_before_disruption, " +
			"ran_before_suspension).",
	}, []string{"namespace", "activity"})
	acceleratorSecondsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_gang_accelerator_seconds_total",
		Help: "The same as rollcall_gang_seconds_total, multiplied by the number of accelerators of each gang.",
	}, []string{"namespace", "activity"})
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

	gangLabels = []string{"namespace", "framework", "phase"}
	gangsDesc  = prometheus.NewDesc(
		"rollcall_gangs", "Gangs, by namespace, framework and phase.", gangLabels, nil)
	oldestTransitionDesc = prometheus.NewDesc("rollcall_gang_oldest_transition_timestamp_seconds",
		"Time since which some gang is in the phase Pending, Starting or Restarting, by namespace, framework and phase, "+
			"in seconds since the Unix epoch.", gangLabels, nil)
	tooLargeDesc = prometheus.NewDesc("rollcall_too_large_objects",
		"Jobs, StatefulSets and Services of gangs that are too large for the memory of the controller, by namespace "+
			"and kind.", []string{"namespace", "kind"}, nil)
	// Administrators choose the names of rules. A policy has at most policy.MaxRules of them.
	violatingGangsDesc = prometheus.NewDesc("rollcall_policy_violating_gangs",
		"Unfinished gangs that violate a limit or rule of the policy, by rule and mode.", []string{"rule", "mode"}, nil)
	suspectNodesDesc = prometheus.NewDesc("rollcall_suspect_nodes",
		"Nodes on which ranks of gangs in several namespaces failed first, at most 8.", nil, nil)
)

func newHistogram(name, help string) *prometheus.HistogramVec {
	options := prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets}
	return prometheus.NewHistogramVec(options, []string{"framework"})
}

func init() {
	metrics.Registry.MustRegister(
		restartsTotal, disruptionsTotal, finishedTotal, secondsTotal, acceleratorSecondsTotal, clockOffset,
		startupDuration, recoveryDuration)
}

// recordTransition updates the metrics when a gang enters a phase. It does nothing if the phase did not
// change.
func recordTransition(namespace, framework string, s, last lifecycle.Status) {
	if s.Phase == last.Phase {
		return
	}
	switch s.Phase {
	case lifecycle.Restarting: // neither count rises if the start of an attempt is repeated
		if s.Restarts > last.Restarts {
			restartsTotal.WithLabelValues(namespace, framework, restartReason(s.FirstFailure)).Inc()
		}
		if s.Disruptions > last.Disruptions {
			disruptionsTotal.WithLabelValues(namespace, framework, restartReason(s.FirstFailure)).Inc()
		}
	case lifecycle.Succeeded, lifecycle.Failed:
		finishedTotal.WithLabelValues(namespace, framework, string(s.Phase)).Inc()
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

// recordSeconds adds to the metrics by how much the seconds of a gang increased since its last status. The time that an
// attempt ran counts when it ends, because only then it is known how. Somebody may have written the last status, so
// no increase exceeds the age of the gang.
func recordSeconds(namespace string, accelerators int64, age time.Duration, s, last lifecycle.Status) {
	before := map[string]int64{}
	for activity, seconds := range last.Seconds.All() {
		before[activity] = seconds
	}
	for activity, seconds := range s.Seconds.All() {
		added := seconds - before[activity]
		switch {
		case activity == lifecycle.ActivityRan && s.Phase.Terminal() && !last.Phase.Terminal():
			added = seconds
		case activity == lifecycle.ActivityRan:
			added = 0
		}
		// All series of a namespace start together, because the function increase does not count their first values.
		added = max(0, min(added, int64(age.Seconds())))
		secondsTotal.WithLabelValues(namespace, activity).Add(float64(added))
		acceleratorSecondsTotal.WithLabelValues(namespace, activity).Add(float64(added * accelerators))
	}
}

// countAccelerators returns the number of accelerators in the training containers of the existing members. It
// counts those of a StatefulSet that is suspended, too.
func (g *observedGang) countAccelerators() int64 {
	var n int64
	for _, m := range g.Members {
		if m.Result == nil {
			continue
		}
		size := m.Result.Gang.OwnMember().Size
		if injected := readInjectedReplicas(m.Workload); injected != nil && m.IsSuspended() {
			size = *injected
		}
		for _, c := range m.Result.Gang.Containers {
			n += c.Accelerators * int64(size)
		}
	}
	return n
}

// restartReason returns the value of the label reason. Reasons of failures have no bound, because any
// controller may evict pods, so the label has a class of reasons.
func restartReason(f *failure.Failure) string {
	switch {
	case f == nil:
		return "other"
	case reasonClasses[f.Reason] != "":
		return reasonClasses[f.Reason]
	case f.IsOOMKilled():
		return "oom_killed"
	case f.IsLostContainer():
		return "node_lost"
	case f.Container != "":
		return "container_exit"
	case f.IsEviction():
		return "evicted"
	default:
		return "other"
	}
}

// reasonClasses contains the classes of the reasons of Rollcall, which no container and no eviction has.
var reasonClasses = map[string]string{
	failure.ReasonStalled: "stalled", failure.ReasonPreflightFailed: "preflight_failed",
	failure.ReasonPodDeleted: "deleted", failure.ReasonMemberRecreated: "deleted", failure.ReasonMemberDeleted: "deleted",
	failure.ReasonNodeLost: "node_lost", failure.ReasonDeviceUnhealthy: "device_unhealthy",
	failure.ReasonStartTimeout: "start_timeout", failure.ReasonScheduleTimeout: "schedule_timeout",
	failure.ReasonRankLost: "unobserved", failure.ReasonUnobserved: "unobserved",
}

// gangCollector counts the gangs in the cache of a Reconciler on each scrape, so that no counter has to follow them.
type gangCollector struct{ *Reconciler }

// Describe implements [prometheus.Collector].
func (c gangCollector) Describe(out chan<- *prometheus.Desc) {
	out <- gangsDesc
	out <- oldestTransitionDesc
	out <- tooLargeDesc
	out <- violatingGangsDesc
	out <- suspectNodesDesc
}

// gangGroup is the label values of the metrics that describe gangs.
type gangGroup struct{ namespace, framework, phase string }

// objectGroup is the label values of the metric that counts objects.
type objectGroup struct{ namespace, kind string }

// gangCounts are the results of one scrape.
type gangCounts struct {
	gangs map[gangGroup]int
	// oldest is since when the oldest gang waits in its phase.
	oldest   map[gangGroup]time.Time
	tooLarge map[objectGroup]int
}

// Collect counts each gang by the workload that contains its rank 0. It returns nothing if the cache
// cannot be read, as before its first synchronization.
func (c gangCollector) Collect(out chan<- prometheus.Metric) {
	for rule, n := range c.sessions.countViolations() {
		out <- prometheus.MustNewConstMetric(
			violatingGangsDesc, prometheus.GaugeValue, float64(n), rule.name, string(rule.mode))
	}
	suspects := len(c.nodeLedger.suspects(c.Clock.Now()))
	out <- prometheus.MustNewConstMetric(suspectNodesDesc, prometheus.GaugeValue, float64(suspects))
	counts := c.countGangs()
	for k, n := range counts.gangs {
		out <- prometheus.MustNewConstMetric(
			gangsDesc, prometheus.GaugeValue, float64(n), k.namespace, k.framework, k.phase)
	}
	for k, since := range counts.oldest {
		out <- prometheus.MustNewConstMetric(
			oldestTransitionDesc, prometheus.GaugeValue, float64(since.Unix()), k.namespace, k.framework, k.phase)
	}
	for k, n := range counts.tooLarge {
		out <- prometheus.MustNewConstMetric(tooLargeDesc, prometheus.GaugeValue, float64(n), k.namespace, k.kind)
	}
}

// countGangs counts the gangs and the objects that are too large. The result is empty if the cache cannot be read.
func (c gangCollector) countGangs() gangCounts {
	// The interface of Prometheus has no context.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) //nolint:forbidigo // see above
	defer cancel()
	workloads, err := c.listMatchingWorkloads(ctx)
	var services corev1.ServiceList
	if err == nil {
		err = c.Client.List(ctx, &services, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		log.Log.V(1).Info("Failed to count gangs", "error", err.Error())
		return gangCounts{}
	}
	managed := map[string]bool{}
	isManaged := func(namespace string) bool {
		if _, known := managed[namespace]; !known {
			managed[namespace], _ = c.isManagedNamespace(ctx, namespace)
		}
		return managed[namespace]
	}
	counts := gangCounts{map[gangGroup]int{}, map[gangGroup]time.Time{}, map[objectGroup]int{}}
	addTooLarge := func(o metav1.Object, kind string) {
		if isTooLarge(o) && isManaged(o.GetNamespace()) {
			counts.tooLarge[objectGroup{c.namespaceLabels.label(o.GetNamespace()), kind}]++
		}
	}
	for _, w := range workloads {
		addTooLarge(w.Meta(), string(w.Kind()))
		if isManaged(w.Meta().Namespace) {
			c.addGang(counts, w)
		}
	}
	for i := range services.Items {
		addTooLarge(&services.Items[i], "Service")
	}
	return counts
}

// addGang counts a gang if the workload contains its rank 0. It skips workloads that Rollcall does not manage,
// whose labels and status anybody may have written.
func (c gangCollector) addGang(counts gangCounts, w gang.Workload) {
	phase, labels := lifecycle.ReadPhase(w), w.Template().Labels
	framework, isRegistered := c.Engine.Frameworks().Find(labels[gang.LabelFramework])
	isManaged := w.IsInjected() && !w.OptedOut() && isRegistered
	if phase == "" || !isManaged || labels[gang.LabelRankOffset] != "" {
		return
	}
	k := gangGroup{c.namespaceLabels.label(w.Meta().Namespace), framework.Name, string(phase)}
	counts.gangs[k]++
	if since := readWaitTime(w, phase); !since.IsZero() &&
		(counts.oldest[k].IsZero() || since.Before(counts.oldest[k])) {
		counts.oldest[k] = since
	}
}

// namespaceLabels limits the number of values of the label namespace. Users of some clusters create namespaces.
// Its methods are safe for concurrent use.
type namespaceLabels struct {
	// limit is the maximum number of namespaces; 0 turns the label off.
	limit int

	mu    sync.Mutex
	known map[string]bool
}

// otherNamespaces is the value of the label namespace for the namespaces beyond the limit. It is not the name
// of a namespace, because of the space.
const otherNamespaces = "other namespaces"

// label returns the value of the label for a namespace: the namespace itself for the first namespaces of this
// process.
func (l *namespaceLabels) label(namespace string) string {
	if l == nil || l.limit == 0 {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known[namespace] {
		if len(l.known) >= l.limit {
			return otherNamespaces
		}
		if l.known == nil {
			l.known = map[string]bool{}
		}
		l.known[namespace] = true
	}
	return namespace
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
	created := w.Meta().CreationTimestamp.Time
	if since := lifecycle.ReadStatus(w).LastTransitionTime; since.After(created) {
		return since
	}
	return created
}
