package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"rollcall.training/gang"
)

// attackSequence is a random sequence of requests for one workload.
type attackSequence struct {
	random *rand.Rand
	isJob  bool
	// user and controller send requests with all permissions, and with the credentials of the controller.
	user, controller dynamic.ResourceInterface
	// hasController is true if some steps use the credentials of the controller, which may write a status.
	hasController bool
	name          string
	// sizes are the replicas that the user gave the workload, except those of dry runs.
	sizes            map[int64]bool
	log              []string
	accepted, denied int64
}

func newAttackSequence(user, controller dynamic.Interface, ns string, seed int64) *attackSequence {
	s := &attackSequence{
		random: rand.New(rand.NewPCG(uint64(seed), 0)), sizes: map[int64]bool{0: true}, name: fmt.Sprintf("attack-%d", seed),
	}
	resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	if s.isJob = s.random.Float64() < 0.4; s.isJob {
		resource = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	}
	s.hasController = s.random.Float64() < 0.25
	s.user, s.controller = user.Resource(resource).Namespace(ns), controller.Resource(resource).Namespace(ns)
	return s
}

// run returns what the oracle found; empty for nothing.
func (s *attackSequence) run(ctx context.Context) string {
	defer func() {
		policy := metav1.DeletePropagationBackground
		_ = s.user.Delete(context.WithoutCancel(ctx), s.name, metav1.DeleteOptions{PropagationPolicy: &policy})
	}()
	mistake, created := s.create(ctx, newAttackPayload(s.random, s.isJob, false))
	if mistake == "" && !created {
		mistake, created = s.create(ctx, attackPayload{labels: map[string]any{gang.LabelFramework: "pytorch"}})
	}
	for i := 0; mistake == "" && created && i < attackSteps; i++ {
		mistake = s.step(ctx)
	}
	if mistake != "" || !created {
		return mistake
	}
	live, err := s.user.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	s.log = append(s.log, "get")
	return s.check(live)
}

// create creates the workload, and reports whether it exists.
func (s *attackSequence) create(ctx context.Context, p attackPayload) (mistake string, created bool) {
	object := s.newObject()
	object.SetLabels(toStrings(p.labels))
	object.SetAnnotations(toStrings(p.annotations))
	if replicas, ok := p.spec["replicas"]; ok {
		_ = unstructured.SetNestedField(object.Object, int64(replicas.(int)), "spec", "replicas")
	}
	if s.random.Float64() < 0.1 {
		object.SetName("")
		object.SetGenerateName(s.name + "-")
	}
	options := metav1.CreateOptions{DryRun: attackOptions(s.random)}
	out, err := s.user.Create(ctx, object, options)
	mistake = s.judge(fmt.Sprintf("create %v", options.DryRun), p, object.Object, out, err, true)
	if err != nil || len(options.DryRun) > 0 {
		return mistake, false
	}
	s.name = out.GetName()
	return mistake, true
}

// newObject returns a workload that can become a gang later.
func (s *attackSequence) newObject() *unstructured.Unstructured {
	var typed any
	if s.isJob {
		job := newJob(s.name, 1)
		job.Labels, job.Spec.Suspend = nil, new(true)
		job.APIVersion, job.Kind = "batch/v1", "Job"
		typed = job
	} else {
		set := newStatefulSet(s.name, 0)
		set.Labels, set.Spec.ServiceName = nil, s.name
		if s.random.Float64() < 0.7 {
			set.Spec.PodManagementPolicy = "Parallel"
		}
		set.APIVersion, set.Kind = "apps/v1", "StatefulSet"
		typed = set
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: object}
}

// step sends one request.
func (s *attackSequence) step(ctx context.Context) string {
	p := newAttackPayload(s.random, s.isJob, true)
	client, isUser := s.user, true
	if s.hasController && s.random.Float64() < 0.5 {
		client, isUser = s.controller, false
		if p.spec["replicas"] != nil {
			p.spec["replicas"] = []any{0, 1, 2, forgedSize}[s.random.IntN(4)]
		}
	}
	if isUser && s.random.Float64() < 0.2 {
		return s.replace(ctx, p)
	}
	var subresources []string
	switch n := s.random.Float64(); {
	case n < 0.2:
		subresources = []string{"status"}
	case n < 0.3 && !s.isJob:
		subresources = []string{"scale"}
	}
	body, patchType := p.object(), attackPatchType(s.random)
	options := metav1.PatchOptions{DryRun: attackOptions(s.random)}
	if !isUser {
		patchType = types.MergePatchType
	}
	if patchType == types.ApplyYAMLPatchType {
		body["apiVersion"], body["kind"] = s.newObject().GetAPIVersion(), s.newObject().GetKind()
		if len(subresources) > 0 && subresources[0] == "scale" {
			body["apiVersion"], body["kind"] = "autoscaling/v1", "Scale"
		}
		removeNil(p.labels)
		removeNil(p.annotations)
		options.Force, options.FieldManager = new(true), fmt.Sprintf("manager-%d", s.random.IntN(2))
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	out, err := client.Patch(ctx, s.name, patchType, text, options, subresources...)
	what := fmt.Sprintf("%s %v dryRun %v, user %v", patchType, subresources, options.DryRun, isUser)
	return s.judge(what, p, body, out, err, isUser && len(options.DryRun) == 0)
}

// replace sends the current object with changes, or a manifest that contains no key of Rollcall.
func (s *attackSequence) replace(ctx context.Context, p attackPayload) string {
	live, err := s.user.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	if s.random.Float64() < 0.3 {
		p = attackPayload{}
		live.SetAnnotations(nil)
		live.SetLabels(map[string]string{gang.LabelFramework: "pytorch"})
	}
	live.SetLabels(merge(live.GetLabels(), p.labels))
	live.SetAnnotations(merge(live.GetAnnotations(), p.annotations))
	for key, value := range p.spec {
		if number, ok := value.(int); ok {
			value = int64(number)
		}
		_ = unstructured.SetNestedField(live.Object, value, "spec", key)
	}
	if s.random.Float64() < 0.2 {
		out, err := s.user.UpdateStatus(ctx, live, metav1.UpdateOptions{})
		return s.judge("replace status", p, p.object(), out, err, true)
	}
	out, err := s.user.Update(ctx, live, metav1.UpdateOptions{})
	return s.judge("replace", p, p.object(), out, err, true)
}

// judge records a request, and checks its result.
func (s *attackSequence) judge(
	what string, p attackPayload, body any, out *unstructured.Unstructured, err error, isUserWrite bool,
) string {
	text, _ := json.Marshal(body)
	s.log = append(s.log, fmt.Sprintf("%s %s: %v", what, text, err))
	if err != nil {
		isDenied := strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
		if isDenied {
			s.denied++
		}
		isOfStatus := strings.Contains(what, "status") // a replacement removes the keys, too
		isBenign := !p.writesKeys && (!isOfStatus || !p.hasKeys() && what != "replace status")
		if isDenied && strings.Contains(err.Error(), keysPolicy) && isBenign && !s.hasController {
			return "a request without a protected key was denied"
		}
		if apierrors.IsInternalError(err) {
			return "the API server failed"
		}
		return ""
	}
	s.accepted++
	if out.GetKind() == "Scale" {
		if replicas, ok, _ := unstructured.NestedInt64(out.Object, "spec", "replicas"); ok && isUserWrite {
			s.sizes[replicas] = true
		}
		return ""
	}
	replicas, hasReplicas, _ := unstructured.NestedInt64(out.Object, "spec", "replicas")
	if hasReplicas && isUserWrite {
		s.sizes[replicas] = true
	}
	isDryRunOfUser := strings.Contains(what, "All") && !strings.Contains(what, "user false")
	if isDryRunOfUser && hasReplicas && !s.sizes[replicas] {
		s.sizes[replicas] = true
		defer delete(s.sizes, replicas)
	}
	return s.check(out)
}

var recordedSizePattern = regexp.MustCompile(`(?i)"replicas":\s*(-?[0-9]+)`)

// check is the oracle: it returns a value in an object that only Rollcall may have written, and did not.
func (s *attackSequence) check(object *unstructured.Unstructured) string {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	if replicas, ok, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); ok && !s.sizes[replicas] {
		return fmt.Sprintf("the StatefulSet has %d replicas", replicas)
	}
	for _, found := range recordedSizePattern.FindAllStringSubmatch(annotations[gang.AnnotationInjected], -1) {
		if size, err := strconv.ParseInt(found[1], 10, 64); !s.isJob && (err != nil || !s.sizes[size]) {
			return fmt.Sprintf("the record contains the size %s", found[1])
		}
	}
	if s.hasController {
		return ""
	}
	if strings.Contains(annotations[gang.AnnotationStatus], forgedMarker) {
		return "the status is forged"
	}
	if annotations[gang.AnnotationSuspendedBy] != "" {
		return "the suspension is forged"
	}
	if strings.Contains(annotations[gang.AnnotationInjected], forgedMarker) {
		return "the record is forged"
	}
	if slices.Contains([]string{"Forged", "Succeeded", "Failed"}, labels[gang.LabelPhase]) {
		return "the phase is forged"
	}
	if labels[gang.LabelSize] == forgedLabel || labels[gang.LabelAccelerators] == forgedLabel {
		return "a label with a fact is forged"
	}
	return ""
}

func toStrings(values map[string]any) map[string]string { return merge(nil, values) }

// merge returns a map with changes. A nil value removes a key.
func merge(have map[string]string, changes map[string]any) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range changes {
		if value == nil {
			delete(out, key)
		} else {
			out[key] = value.(string)
		}
	}
	return out
}

func removeNil(values map[string]any) {
	maps.DeleteFunc(values, func(_ string, value any) bool { return value == nil })
}
