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
)

// What operators see of gangs. No label holds a name that users choose.
var (
	restarts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_gang_restarts_total",
		Help: "Restarts of gangs, by framework and cause (exit, oom, evicted, deleted, late, unseen or other).",
	}, []string{"framework", "cause"})
	// From a second, which a warm node takes, to most of an hour, which nodes that are
	// made on demand and large images do.
	waits           = prometheus.ExponentialBuckets(1, 2, 12)
	secondsToRun    = histogram("rollcall_gang_start_seconds", "Time from a gang's creation, or its resumption, until all ranks were ready.")
	secondsToReturn = histogram("rollcall_gang_restart_seconds", "Time from the fall of a rank until all ranks were ready again.")

	gangs = prometheus.NewDesc("rollcall_gangs", "Gangs, by framework and phase.", []string{"framework", "phase"}, nil)
)

func histogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: waits}, []string{"framework"})
}

func init() { metrics.Registry.MustRegister(restarts, secondsToRun, secondsToReturn) }

// measure counts what a gang went through when it enters a state.
func measure(framework string, s gang.Status, before gang.Phase) {
	if s.Phase == before {
		return
	}
	switch s.Phase {
	case gang.Restarting:
		restarts.WithLabelValues(framework, cause(s.Cause)).Inc()
	case gang.Running:
		if s.WasWhole {
			return // one that came back to it neither started nor restarted
		}
		if s.Attempt == 0 && !s.Begun.IsZero() {
			secondsToRun.WithLabelValues(framework).Observe(s.Since.Sub(s.Begun).Seconds())
		}
		if s.Attempt > 0 && !s.Fell.IsZero() {
			secondsToReturn.WithLabelValues(framework).Observe(s.Since.Sub(s.Fell).Seconds())
		}
	}
}

// cause sorts falls into a few kinds: their reasons are words of kubelets and of
// whoever evicts pods, and there is no end to them.
func cause(f *gang.Fall) string {
	switch {
	case f == nil:
		return "other"
	case f.Reason == "OOMKilled":
		return "oom"
	case f.Container != "":
		return "exit"
	}
	switch f.Reason {
	case gang.FallDeleted:
		return "deleted"
	case gang.FallLate:
		return "late"
	case gang.FallUnseen:
		return "unseen"
	case "Evicted", "EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet":
		return "evicted"
	default:
		return "other"
	}
}

// census counts the gangs in the cache when it is asked, so that nothing has to be
// kept in step with them.
type census struct{ client client.Reader }

func (c census) Describe(out chan<- *prometheus.Desc) { out <- gangs }

// Collect counts each gang once: by the workload that holds its rank 0.
func (c census) Collect(out chan<- prometheus.Metric) {
	// Reads of the cache, which may not be there yet; whoever scrapes gives no context.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) //nolint:forbidigo // see above
	defer cancel()
	type key struct{ framework, phase string }
	count := map[key]int{}
	add := func(w gang.Workload) {
		labels := w.Template().Labels
		if phase := gang.PhaseOf(w); phase != "" && labels[gang.LabelRankOffset] == "" && labels[gang.LabelFramework] != "" {
			count[key{labels[gang.LabelFramework], string(phase)}]++
		}
	}
	var jobs batchv1.JobList
	var sets appsv1.StatefulSetList
	for _, list := range []client.ObjectList{&jobs, &sets} {
		if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			log.Log.V(1).Info("Counting gangs", "error", err.Error())
			return
		}
	}
	for i := range jobs.Items {
		add(gang.Workload{Job: &jobs.Items[i]})
	}
	for i := range sets.Items {
		add(gang.Workload{StatefulSet: &sets.Items[i]})
	}
	for k, n := range count {
		out <- prometheus.MustNewConstMetric(gangs, prometheus.GaugeValue, float64(n), k.framework, k.phase)
	}
}
