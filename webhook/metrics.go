package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// injections counts answers of the mutating endpoint. Its labels have few values:
// a framework that is not registered counts as "unknown", whatever the user wrote.
var injections = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "rollcall_injections_total",
	Help: "Admission requests for labelled workloads, by framework, workload kind, result (allowed, denied or error) and reason.",
}, []string{"framework", "kind", "result", "reason"})

// ranks counts answers of the endpoint for pods. It stays at zero where API servers
// give ranks by themselves.
var ranks = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "rollcall_pod_ranks_total",
	Help: "Admission requests for pods with a rank offset, by workload kind, result (allowed, denied or error) and reason.",
}, []string{"kind", "result", "reason"})

func init() { metrics.Registry.MustRegister(injections, ranks) }

func observe(e *injectors.Engine, req admission.Request, framework string, reason gang.Reason) {
	if _, ok := e.Frameworks().Find(framework); !ok {
		framework = "unknown"
	}
	kind := "other"
	if k := gang.Kind(req.Kind.Kind); k == gang.Job || k == gang.StatefulSet {
		kind = string(k)
	}
	injections.WithLabelValues(framework, kind, outcome(reason), string(reason)).Inc()
}

// observeRank tells the kind of the pod's workload by the index label that it has.
func observeRank(labels map[string]string, reason gang.Reason) {
	kind := "other"
	_, job := labels[batchv1.JobCompletionIndexAnnotation]
	_, set := labels[appsv1.PodIndexLabel]
	switch {
	case job && !set:
		kind = string(gang.Job)
	case set && !job:
		kind = string(gang.StatefulSet)
	}
	ranks.WithLabelValues(kind, outcome(reason), string(reason)).Inc()
}

func outcome(r gang.Reason) string {
	switch r {
	case gang.ReasonInvalid:
		return "denied"
	case gang.ReasonUndecodable, gang.ReasonInternal:
		return "error"
	default:
		return "allowed"
	}
}
