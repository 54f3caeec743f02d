package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// cacheClient is the client of one manager: it reads from the caches of the manager and writes to the API
// server. Only the methods that the reconciler calls are implemented.
type cacheClient struct {
	client.Client
	m *manager
}

func (c cacheClient) Scheme() *runtime.Scheme          { return scheme.Scheme }
func (c cacheClient) RESTMapper() meta.RESTMapper      { return c.m.mapper }
func (c cacheClient) Status() client.SubResourceWriter { return statusWriter{m: c.m} }

func (c cacheClient) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	k := kindOf(o)
	found := c.m.watches[k].objects[key.Name]
	if found == nil || key.Namespace != namespace {
		return apierrors.NewNotFound(resources[k], key.Name)
	}
	return assign(o, found.DeepCopyObject().(client.Object))
}

// assign copies an object into the object of a caller.
func assign(to, from client.Object) error {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
	return nil
}

func (c cacheClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	k := kindOf(list)
	var items []client.Object
	for _, cached := range c.m.watches[k].list() {
		isSelected := o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(cached.GetLabels()))
		if o.Namespace != "" && o.Namespace != namespace || !isSelected || !c.m.matchesIndex(k, cached, o) {
			continue
		}
		items = append(items, cached.DeepCopyObject().(client.Object))
	}
	switch list := list.(type) {
	case *batchv1.JobList:
		list.Items = collect[batchv1.Job](items)
	case *appsv1.StatefulSetList:
		list.Items = collect[appsv1.StatefulSet](items)
	case *corev1.PodList:
		list.Items = collect[corev1.Pod](items)
	default:
		return fmt.Errorf("listing %T is not supported", list)
	}
	return nil
}

func collect[T any](objects []client.Object) []T {
	var out []T
	for _, o := range objects {
		out = append(out, *any(o).(*T))
	}
	return out
}

func (c cacheClient) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return c.m.request("create", o, func() (client.Object, error) { return c.m.api.create(o) })
}

func (c cacheClient) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.m.patch(o, p, "")
}

func (c cacheClient) DeleteAllOf(_ context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	options := (&client.DeleteAllOfOptions{}).ApplyOptions(opts)
	k := kindOf(o)
	return c.m.request("delete all of", o, func() (client.Object, error) {
		for _, found := range c.m.api.list(k) {
			if options.LabelSelector.Matches(labels.Set(found.GetLabels())) {
				c.m.oracle.checkDeletion(found.(*corev1.Pod))
				_ = c.m.api.delete(k, found.GetName(), deleteOptions{}) // it exists
			}
		}
		return o, nil
	})
}

// statusWriter writes the subresource status.
type statusWriter struct {
	client.SubResourceWriter
	m *manager
}

func (s statusWriter) Patch(
	_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption,
) error {
	return s.m.patch(o, p, "status")
}

// liveReader reads from the API server.
type liveReader struct {
	client.Reader
	m *manager
}

// interrupt lets other events happen before a request. It returns an error if the manager crashes or the request fails.
func (l liveReader) interrupt(k kind, name, verb string) error {
	if err := l.m.interrupt(); err != nil {
		return err
	}
	before, after := l.m.fault(k, name, verb)
	return cmp.Or(before, after)
}

func (l liveReader) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if err := l.interrupt(kindOf(o), key.Name, "get"); err != nil {
		return err
	}
	found, err := l.m.api.get(kindOf(o), key.Name)
	if err != nil {
		return err
	}
	return assign(o, found)
}

func (l liveReader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := l.interrupt(podKind, "", "list"); err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return fmt.Errorf("listing %T is not supported", list)
	}
	for _, stored := range l.m.api.list(podKind) {
		if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(stored.GetLabels())) {
			pods.Items = append(pods.Items, *clone(stored).(*corev1.Pod))
		}
	}
	return nil
}

// patch applies a patch to the stored object, after admission.
func (m *manager) patch(o client.Object, p client.Patch, subresource string) error {
	data, err := p.Data(o)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	return m.request("patch "+subresource, o, func() (client.Object, error) {
		stored := m.api.find(kindOf(o), o.GetName())
		if stored == nil {
			return nil, apierrors.NewNotFound(resources[kindOf(o)], o.GetName())
		}
		patched, err := applyPatch(stored, p.Type(), data)
		if err != nil {
			return nil, err
		}
		if subresource == "" {
			if patched, err = m.admission.admitUpdate(stored, patched); err != nil {
				return nil, err
			}
		}
		m.oracle.checkWrite(stored, patched)
		return m.api.update(patched, subresource)
	})
}

// applyPatch returns a patched copy of an object. The only strategic merge patch of Rollcall removes the
// tracking finalizer of a pod.
func applyPatch(stored client.Object, t types.PatchType, data []byte) (client.Object, error) {
	if t == types.StrategicMergePatchType {
		if !strings.Contains(string(data), "$deleteFromPrimitiveList/finalizers") {
			return nil, errors.New("unknown strategic merge patch")
		}
		out := clone(stored)
		removeFinalizer(out, batchv1.JobTrackingFinalizer)
		return out, nil
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", stored, err)
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return nil, fmt.Errorf("applying a patch: %w", err)
	}
	return decodeAs(stored, after, strings.Contains(string(data), `"resourceVersion"`))
}

// decodeAs decodes an object of the type of another one. Without a lock, the result has no version.
func decodeAs(like client.Object, text []byte, locked bool) (client.Object, error) {
	out := reflect.New(reflect.TypeOf(like).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", like, err)
	}
	if !locked {
		out.SetResourceVersion("")
	}
	return out, nil
}

// admitter is the webhook of Rollcall, with the conditions of the chart under which API servers call it.
type admitter struct {
	mutator, validator admission.Handler
	// down is true while no webhook answers. Updates of Jobs are then admitted, and all others fail.
	down bool
	// mostReplicas is the limit of a policy of somebody else for StatefulSets, and denialCode its response; 0 for none.
	mostReplicas, denialCode int32
}

// admitCreate returns an object as admission changes it.
func (a *admitter) admitCreate(o client.Object) (client.Object, error) {
	return a.admit(admissionv1.Create, nil, o)
}

// admitUpdate returns an updated object as admission changes it.
func (a *admitter) admitUpdate(before, after client.Object) (client.Object, error) {
	switch after := after.(type) {
	case *batchv1.Job:
		if a.down || !isJudgedUpdate(before.(*batchv1.Job), after) {
			return after, nil // failurePolicy: Ignore
		}
		return a.call(a.mutator, admissionv1.Update, before, after)
	case *appsv1.StatefulSet:
		if a.denialCode > 0 && *after.Spec.Replicas > a.mostReplicas {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: a.denialCode, Message: "too many replicas",
			}}
		}
		return a.admit(admissionv1.Update, before, after)
	}
	return after, nil
}

// isJudgedUpdate is the match condition of suspend.rollcall.training in charts/rollcall/templates/webhooks.yaml.
func isJudgedUpdate(before, after *batchv1.Job) bool {
	_, isQueued := after.Labels["kueue.x-k8s.io/queue-name"]
	isSuspended := after.Labels[gang.LabelPhase] == string(lifecycle.Suspended)
	_, hasStatus := after.Annotations[gang.AnnotationStatus]
	isResumed := !ptr.Deref(after.Spec.Suspend, false)
	return ptr.Deref(before.Spec.Suspend, false) && hasStatus &&
		(after.Annotations[gang.AnnotationSuspendedBy] == gang.SuspendedByRollcall ||
			isResumed && (isQueued || isSuspended))
}

// admit calls the mutating webhook and then the validating webhook.
func (a *admitter) admit(operation admissionv1.Operation, before, after client.Object) (client.Object, error) {
	mutated, err := a.call(a.mutator, operation, before, after)
	if err != nil {
		return nil, err
	}
	return a.call(a.validator, operation, before, mutated)
}

// call calls a webhook.
func (a *admitter) call(
	handler admission.Handler, operation admissionv1.Operation, before, after client.Object,
) (client.Object, error) {
	if _, labeled := after.GetLabels()[gang.LabelFramework]; !labeled {
		return after, nil
	}
	if a.down {
		return nil, apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: namespace, Name: after.GetName(),
		Kind: metav1.GroupVersionKind{Kind: string(kindOf(after))},
	}}
	var err error
	if req.Object.Raw, err = json.Marshal(after); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", after, err)
	}
	if before != nil {
		if req.OldObject.Raw, err = json.Marshal(before); err != nil {
			return nil, fmt.Errorf("encoding %T: %w", before, err)
		}
	}
	req.Options.Raw = []byte(`{}`)
	response := handler.Handle(context.Background(), req)
	if !response.Allowed {
		return nil, &apierrors.StatusError{ErrStatus: *response.Result}
	}
	if len(response.Patch) == 0 {
		return after, nil
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		return nil, fmt.Errorf("decoding the patch of the webhook: %w", err)
	}
	text, err := patch.Apply(req.Object.Raw)
	if err != nil {
		return nil, fmt.Errorf("applying the patch of the webhook: %w", err)
	}
	return decodeAs(after, text, after.GetResourceVersion() != "")
}
