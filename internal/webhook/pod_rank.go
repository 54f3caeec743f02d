package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/fieldpath"
)

// PodRankHandler sets the rank label on the pods of a workload whose ranks do not start at 0 (see
// [gang.PodRank]). API servers with MutatingAdmissionPolicy set the label themselves and never call the
// handler (docs/adr/0003). The handler decodes only the metadata of a pod, so it accepts pods of
// newer API servers.
type PodRankHandler struct{}

var _ admission.Handler = PodRankHandler{}

// Handle responds to one admission request. It replaces a rank label that the pod already has.
func (PodRankHandler) Handle(ctx context.Context, req admission.Request) admission.Response {
	var pod metav1.PartialObjectMetadata
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		recordPodRank(nil, gang.ReasonDecodeError)
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod of the request: %w", err))
	}
	if _, ok := pod.Labels[gang.LabelRankOffset]; !ok {
		// A selector that is too broad must not block unrelated pods.
		recordPodRank(pod.Labels, gang.ReasonNotLabeled)
		return admission.Allowed("")
	}
	rank, errs := gang.PodRank(pod.Labels)
	if len(errs) > 0 {
		recordPodRank(pod.Labels, gang.ReasonInvalid)
		log.FromContext(ctx).V(1).Info("Denied a pod without a rank", "errors", errs.ToAggregate())
		// The name is empty for a pod with generateName.
		return newDenialResponse(apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), pod.Name, errs))
	}
	result := injectors.Result{Reason: gang.ReasonInjected}
	value := strconv.Itoa(int(rank))
	if pod.Labels[gang.LabelRank] == value {
		result.Reason = gang.ReasonUnchanged
	}
	recordPodRank(pod.Labels, result.Reason)
	log.FromContext(ctx).V(1).Info("Set the rank of a pod", "reason", result.Reason, "rank", rank)
	if result.Reason == gang.ReasonUnchanged {
		return newPatchResponse(nil, result)
	}
	// The pod has labels, because it has an offset. The operation "add" also replaces a value.
	path := fieldpath.Pointer("metadata", "labels", gang.LabelRank)
	return newPatchResponse([]jsonpatch.Operation{jsonpatch.NewOperation("add", path, value)}, result)
}
