package webhook

import (
	"net/http"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/injectors"
	"rollcall.training/internal/connections"
)

// Paths of the endpoints in the webhook configurations.
const (
	MutatePath    = "/mutate"
	ValidatePath  = "/validate"
	MutatePodPath = "/mutate-pod"
	// JudgeUpdatePath compares updates of Jobs with the policy of the cluster.
	JudgeUpdatePath = "/judge-update"
	// PolicyFilePath validates the ConfigMap with the policy.
	PolicyFilePath = "/validate-policy-file"
)

// Options are the parts of the endpoints.
type Options struct {
	// Engine injects and parses workloads. Required.
	Engine *injectors.Engine
	// Policy admits workloads by the policy of the cluster; nil for no policy.
	Policy *PolicyEnforcer
	// PolicyFile validates the policy; nil for no policy.
	PolicyFile admission.Handler
	// Draining reports whether a shutdown has started. Required, and safe for concurrent use.
	Draining func() bool
}

// Register adds all endpoints to a server. They refuse requests that are too large, and requests that
// arrive faster than they can be handled. A panic fails only its own request, because
// controller-runtime recovers from the panic and counts it in controller_runtime_webhook_panics_total.
func Register(server ctrlwebhook.Server, o Options) {
	validator := NewValidator(o.Engine, o.Policy)
	handlers := map[string]admission.Handler{
		MutatePath:    NewMutator(o.Engine, o.Policy),
		ValidatePath:  validator,
		MutatePodPath: PodRankHandler{},
	}
	if o.Policy != nil {
		handlers[JudgeUpdatePath] = admission.HandlerFunc(validator.JudgeJobUpdate)
	}
	register := func(path string, l *connections.Limiter, handler admission.Handler) {
		limited := limitRequests(l, &ctrlwebhook.Admission{Handler: handler})
		server.Register(path, closeWhileDraining(limited, o.Draining))
	}
	l := connections.NewLimiter(connections.MaxRequests)
	for path, handler := range handlers {
		register(path, l, handler)
	}
	if o.Policy != nil {
		// A policy needs seconds and much memory, and anybody who reaches the webhook can send one. Policies are rare, so
		// they share one slot and never occupy those of workloads.
		register(PolicyFilePath, connections.NewLimiter(1), o.PolicyFile)
	}
}

// closeWhileDraining closes each connection with its next response after a shutdown has started. The API
// server reuses connections, even to a pod that was removed from the endpoints. A request that it sends
// while the server closes the connection is lost, because HTTP clients do not retry a POST.
func closeWhileDraining(h http.Handler, draining func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
