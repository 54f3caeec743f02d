package webhook

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

// admissionRequests counts the responses of the mutating endpoint. The label framework is "unknown" for
// a framework that is not registered, so that users cannot create new time series.
var admissionRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "rollcall_admission_requests_total",
	Help: "Number of admission requests for labeled workloads, by framework, workload kind, " +
		"result (allowed, denied or error) and reason.",
}, []string{"framework", "kind", "result", "reason"})

// podRankRequests counts the responses of the endpoint for pods. It stays at 0 if the API servers set
// the rank with a MutatingAdmissionPolicy.
var podRankRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "rollcall_pod_rank_admission_requests_total",
	Help: "Number of admission requests for pods with a rank offset, by workload kind, " +
		"result (allowed, denied or error) and reason.",
}, []string{"kind", "result", "reason"})

// refusedRequests counts the requests that were refused without being decoded.
var refusedRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "rollcall_admission_refused_requests_total",
	Help: "Number of admission requests that exceeded a bound, by reason (TooManyRequests or RequestEntityTooLarge).",
}, []string{"reason"})

// policyFindings counts what the policy finds. Rules have names that administrators choose, and a policy
// has at most policy.MaxRules of them. forgetRules removes those of an earlier policy.
var policyFindings = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "rollcall_policy_findings_total",
	Help: "Number of findings of the policy in admission requests, by rule, mode, and result " +
		"(violated, existing if an update did not introduce the violation, or unknown).",
}, []string{"rule", "mode", "result"})

// policyEvaluationDuration has buckets from 10 microseconds, for a few limits, to 0.7 seconds.
var policyEvaluationDuration = prometheus.NewHistogram(prometheus.HistogramOpts{
	Name:    "rollcall_policy_evaluation_duration_seconds",
	Help:    "Time to compare one workload with the policy.",
	Buckets: prometheus.ExponentialBuckets(10e-6, 4, 9),
})

func init() {
	metrics.Registry.MustRegister(
		admissionRequests, podRankRequests, refusedRequests, policyFindings, policyEvaluationDuration)
}

// record counts the findings.
func (f findings) record() {
	count := func(list []policy.Finding, result string) {
		for _, finding := range list {
			outcome := result
			if finding.Unknown {
				outcome = "unknown"
			}
			policyFindings.WithLabelValues(finding.Rule, string(finding.Mode), outcome).Inc()
		}
	}
	count(f.introduced, "violated")
	count(f.existing, "existing")
}

// forgetRules removes the series of the rules that are in the last policy and not in the current policy.
func forgetRules(last, current []string) {
	for _, rule := range last {
		if !slices.Contains(current, rule) {
			policyFindings.DeletePartialMatch(prometheus.Labels{"rule": rule})
		}
	}
}

// recordAdmission counts a response of the mutating endpoint.
func recordAdmission(e *injectors.Engine, req admission.Request, framework string, reason gang.Reason) {
	if _, ok := e.Frameworks().Find(framework); !ok {
		framework = "unknown"
	}
	kind := "other"
	if requested := gang.Kind(req.Kind.Kind); requested == gang.Job || requested == gang.StatefulSet {
		kind = string(requested)
	}
	admissionRequests.WithLabelValues(framework, kind, resultLabel(reason), string(reason)).Inc()
}

// recordPodRank counts a response of the endpoint for pods. It derives the kind of the pod's workload
// from the index label of the pod.
func recordPodRank(labels map[string]string, reason gang.Reason) {
	kind := "other"
	_, hasJobIndex := labels[batchv1.JobCompletionIndexAnnotation]
	_, hasStatefulSetIndex := labels[appsv1.PodIndexLabel]
	switch {
	case hasJobIndex && !hasStatefulSetIndex:
		kind = string(gang.Job)
	case hasStatefulSetIndex && !hasJobIndex:
		kind = string(gang.StatefulSet)
	}
	podRankRequests.WithLabelValues(kind, resultLabel(reason), string(reason)).Inc()
}

// resultLabel returns the value of the label result.
func resultLabel(reason gang.Reason) string {
	switch reason {
	case gang.ReasonInvalid:
		return "denied"
	case gang.ReasonDecodeError, gang.ReasonInternalError:
		return "error"
	default:
		return "allowed"
	}
}
