package webhook

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"rollcall.training/injectors"
)

// Paths of the endpoints in the webhook configurations.
const (
	MutatePath    = "/mutate"
	ValidatePath  = "/validate"
	MutatePodPath = "/mutate-pod"
)

// Register adds all endpoints to a server. They refuse requests that are too large, and requests that
// arrive faster than they can be handled. A panic fails only its own request, because
// controller-runtime recovers from the panic and counts it in controller_runtime_webhook_panics_total.
// The function draining reports whether a shutdown has started. It must be safe for concurrent use.
func Register(server ctrlwebhook.Server, scheme *runtime.Scheme, e *injectors.Engine, draining func() bool) {
	l := newLimiter(maxConcurrentRequests)
	for path, handler := range map[string]ctrlwebhook.AdmissionHandler{
		MutatePath:    NewMutator(e),
		ValidatePath:  NewValidator(scheme, e),
		MutatePodPath: PodRankHandler{},
	} {
		limited := l.limitRequests(&ctrlwebhook.Admission{Handler: handler})
		server.Register(path, closeWhileDraining(limited, draining))
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
