package webhook

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"rollcall.training/injectors"
)

// Paths of the endpoints, as the webhook configurations name them.
const (
	MutatePath    = "/mutate"
	ValidatePath  = "/validate"
	MutatePodPath = "/mutate-pod"
)

// Register serves all endpoints. A panic in one of them fails that one request:
// controller-runtime recovers it and counts it in
// controller_runtime_webhook_panics_total. Draining tells whether a shutdown has begun.
func Register(server ctrlwebhook.Server, scheme *runtime.Scheme, e *injectors.Engine, draining func() bool) {
	for path, handler := range map[string]ctrlwebhook.AdmissionHandler{
		MutatePath: NewMutator(e), ValidatePath: NewValidator(scheme, e), MutatePodPath: Ranker{},
	} {
		server.Register(path, leaving(&ctrlwebhook.Admission{Handler: handler}, draining))
	}
}

// leaving has each connection end with its next answer once a shutdown has begun. The API
// server keeps connections, to a pod that is no endpoint any more, too; and a call that
// it writes to one in the moment in which the server closes it is lost, since a POST is
// not sent again.
func leaving(h http.Handler, draining func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
