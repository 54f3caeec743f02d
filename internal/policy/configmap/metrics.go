package configmap

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	validPolicy = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rollcall_policy_valid",
		Help: "Whether the ConfigMap contains a valid policy, which is in force (1), or not (0).",
	})
	// policyInfo has one series: that of the policy in force.
	policyInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollcall_policy_info",
		Help: "The policy in force by its digest. The value is always 1.",
	}, []string{"digest"})
	loadTimestamp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rollcall_policy_load_timestamp_seconds",
		Help: "Time at which the policy in force was loaded, in seconds since the Unix epoch.",
	})
)

// registerMetrics registers the metrics once, in the first call of [New]. Without a policy, the metrics must not
// exist: rollcall_policy_valid would be 0.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(validPolicy, policyInfo, loadTimestamp) })

// recordState updates the metrics after the state changed.
func recordState(last, next State, now time.Time) {
	validPolicy.Set(0)
	if next.Mistake == "" {
		validPolicy.Set(1)
	}
	if next.Policy == nil || last.Policy.Digest() == next.Policy.Digest() {
		return
	}
	policyInfo.Reset()
	policyInfo.WithLabelValues(next.Policy.Digest()).Set(1)
	loadTimestamp.Set(float64(now.Unix()))
}
