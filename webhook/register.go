package webhook

import (
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
// controller_runtime_webhook_panics_total.
func Register(server ctrlwebhook.Server, scheme *runtime.Scheme, e *injectors.Engine) {
	server.Register(MutatePath, &ctrlwebhook.Admission{Handler: NewMutator(e)})
	server.Register(ValidatePath, &ctrlwebhook.Admission{Handler: NewValidator(scheme, e)})
	server.Register(MutatePodPath, &ctrlwebhook.Admission{Handler: Ranker{}})
}
