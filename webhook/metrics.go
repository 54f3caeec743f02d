package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
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

func init() { metrics.Registry.MustRegister(injections) }

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
