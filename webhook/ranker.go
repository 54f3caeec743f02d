package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// Ranker puts the rank on each pod of a workload whose ranks do not begin at 0
// ([gang.RankOf]). API servers that know MutatingAdmissionPolicy do this by
// themselves and never call it (docs/adr/0011). It reads labels alone: a pod may
// hold whatever its API server knows and this build does not.
type Ranker struct{}

var _ admission.Handler = Ranker{}

// Handle answers one admission request. A label of the same name that the pod
// brought along, from its template or from anybody, is replaced.
func (Ranker) Handle(ctx context.Context, req admission.Request) admission.Response {
	var pod metav1.PartialObjectMetadata
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		observeRank(nil, gang.ReasonUndecodable)
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the pod of the request: %w", err))
	}
	if _, ok := pod.Labels[gang.LabelRankOffset]; !ok {
		// A selector that is too wide must not block the pods that it caught.
		observeRank(pod.Labels, gang.ReasonNotLabelled)
		return admission.Allowed("")
	}
	rank, errs := gang.RankOf(pod.Labels)
	if len(errs) > 0 {
		observeRank(pod.Labels, gang.ReasonInvalid)
		log.FromContext(ctx).V(1).Info("Denied pod without a rank", "errors", errs.ToAggregate())
		// Controllers leave the rest of the name to the API server.
		return denied(apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), pod.Name, errs))
	}
	result := injectors.Result{Reason: gang.ReasonInjected}
	value := strconv.Itoa(int(rank))
	if pod.Labels[gang.LabelRank] == value {
		result.Reason = gang.ReasonUnchanged
	}
	observeRank(pod.Labels, result.Reason)
	log.FromContext(ctx).V(1).Info("Gave pod its rank", "reason", result.Reason, "rank", rank)
	if result.Reason == gang.ReasonUnchanged {
		return patched(nil, result)
	}
	// There are labels, or there would be no offset; and "add" replaces as well.
	path := "/metadata/labels/" + strings.ReplaceAll(gang.LabelRank, "/", "~1")
	return patched([]jsonpatch.Operation{jsonpatch.NewOperation("add", path, value)}, result)
}
