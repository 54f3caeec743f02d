package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
)

// clusterDiffer compares the workloads of a cluster with what kubectl apply would make of them.
type clusterDiffer struct {
	client dynamic.Interface
	// namespace is that of manifests without a namespace.
	namespace string
}

// newClusterDiffer returns a differ for the selected cluster, which prints the warnings of its webhooks.
func newClusterDiffer(flags clusterFlags, warnings io.Writer) (clusterDiffer, error) {
	config, namespace, err := flags.loadConfig()
	if err != nil {
		return clusterDiffer{}, err
	}
	config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return clusterDiffer{}, fmt.Errorf("creating a client of the cluster: %w", err)
	}
	return clusterDiffer{client: client, namespace: namespace}, nil
}

// diff prints the differences of all workloads in the documents.
func (d clusterDiffer) diff(ctx context.Context, docs []*manifest.Document, stdout, stderr io.Writer) error {
	var others []manifest.Object
	anyChanged, rejected := false, 0
	for _, o := range manifest.ListObjects(docs) {
		w, _, isWorkload, err := o.DecodeWorkload()
		if !isWorkload {
			others = append(others, o)
			continue
		}
		object := &unstructured.Unstructured{}
		if err := errors.Join(err, o.Decode(&object.Object)); err != nil {
			return newUsageError(err)
		}
		live, applied, err := d.apply(ctx, w, object)
		if status := apierrors.APIStatus(nil); applied != nil && errors.As(err, &status) {
			rejected++
			printRejection(wrapForTerminal(stderr), w, err)
		} else if err != nil {
			return newUsageError(err)
		}
		changed, err := printObjectDiff(stdout, w, live, applied)
		if err != nil {
			return newUsageError(err)
		}
		anyChanged = anyChanged || changed
	}
	for _, kind := range manifest.CountKinds(others) {
		fmt.Fprintf(stderr, "note: not compared: %s; use kubectl diff\n", kind)
	}
	switch {
	case rejected > 0:
		return fmt.Errorf("the cluster rejects %s", gang.FormatCount(rejected, "object"))
	case anyChanged:
		return errFindings
	}
	return nil
}

// apply returns a workload of the cluster, nil if it does not exist, and what a dry run of kubectl apply makes of it.
// With an error of the dry run, applied is what the manifest requests.
func (d clusterDiffer) apply(
	ctx context.Context, w gang.Workload, object *unstructured.Unstructured,
) (live, applied *unstructured.Unstructured, err error) {
	version := w.GroupKind().WithVersion("v1")
	object.SetGroupVersionKind(version) // an item of a list can have none
	object.SetNamespace(cmp.Or(object.GetNamespace(), d.namespace))
	resource := version.GroupVersion().WithResource(strings.ToLower(string(w.Kind())) + "s")
	client := d.client.Resource(resource).Namespace(object.GetNamespace())
	dryRun, strict := []string{metav1.DryRunAll}, metav1.FieldValidationStrict
	if object.GetName() != "" {
		live, err = client.Get(ctx, object.GetName(), metav1.GetOptions{})
	}
	if object.GetName() == "" || apierrors.IsNotFound(err) {
		applied, err = client.Create(ctx, object,
			metav1.CreateOptions{DryRun: dryRun, FieldManager: programName, FieldValidation: strict})
		return nil, cmp.Or(applied, object), err
	}
	if err != nil {
		return nil, nil, err
	}
	requested, patch, err := mergeManifest(w, live, object)
	if err != nil || string(patch) == "{}" {
		return live, live, err
	}
	applied, err = client.Patch(ctx, object.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{DryRun: dryRun, FieldManager: programName, FieldValidation: strict})
	if err != nil {
		return live, requested, err
	}
	return live, applied, nil
}

// mergeManifest merges a manifest with its object in the cluster as kubectl apply does: it also removes what the
// manifest of the last kubectl apply had. The patch changes the object to the result.
func mergeManifest(
	w gang.Workload, live, object *unstructured.Unstructured,
) (requested *unstructured.Unstructured, patch []byte, err error) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(w.Object())
	if err != nil {
		return nil, nil, fmt.Errorf("reading the type of %s: %w", w.Kind(), err)
	}
	modified, modifiedErr := object.MarshalJSON()
	current, currentErr := live.MarshalJSON()
	if err := errors.Join(modifiedErr, currentErr); err != nil {
		return nil, nil, fmt.Errorf("encoding %s: %w", object.GetName(), err)
	}
	var merged []byte
	last := []byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	merge, err := strategicpatch.CreateThreeWayMergePatch(last, modified, current, schema, true)
	if err == nil {
		merged, err = strategicpatch.StrategicMergePatchUsingLookupPatchMeta(current, merge, schema)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("merging %s with its object: %w", object.GetName(), err)
	}
	requested = &unstructured.Unstructured{}
	if err := requested.UnmarshalJSON(merged); err != nil {
		return nil, nil, fmt.Errorf("decoding %s: %w", object.GetName(), err)
	}
	patch, err = jsonpatch.CreateMergePatch(current, merged)
	return requested, patch, err
}

// printObjectDiff prints the difference of a workload, which can be nil, and what it becomes, and reports whether they
// differ. It removes what the API server and controllers write from both.
func printObjectDiff(out io.Writer, w gang.Workload, live, applied *unstructured.Unstructured) (bool, error) {
	var texts [2]string
	for i, o := range []*unstructured.Unstructured{live, applied} {
		if o == nil {
			continue
		}
		for _, name := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
			unstructured.RemoveNestedField(o.Object, "metadata", name)
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
		unstructured.RemoveNestedField(o.Object, "status")
		doc, err := manifest.NewDocument(clusterSourceName, o)
		if err != nil {
			return false, err
		}
		if texts[i], err = formatForDiff([]*manifest.Document{doc}); err != nil {
			return false, err
		}
	}
	return printDiff(out, objectName(w)+" in the cluster", objectName(w)+" applied", texts[0], texts[1])
}

// printRejection prints why the API server would not apply a workload. It omits the value of an immutable field, which
// can be a complete pod template.
func printRejection(out io.Writer, w gang.Workload, err error) {
	for _, cause := range injectors.DenialCauses(err) {
		if path, _, ok := strings.Cut(cause, ": "); ok && strings.HasSuffix(cause, apivalidation.FieldImmutableErrorMsg) {
			cause = fmt.Sprintf("%s: %s; recreate the %s with kubectl replace --force", path,
				apivalidation.FieldImmutableErrorMsg, w.Kind())
		}
		fmt.Fprintf(out, "error: %s: %s\n", objectName(w), cause)
	}
}
